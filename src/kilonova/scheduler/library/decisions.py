"""Decisions about a snapshot, by name instead of row. The fields are the JSON output. Equal
snapshots give equal decisions everywhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, Plan, UnschedulableGang
from kilonova.scheduler.core.explain import Explainer, Explanation, explain
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.status.results import rejected_result

_MAX_EXPLAINED = 64
"""Explanations are computed for at most this many gangs that lack capacity; each costs
simulations."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """The node of a pod, and its devices as in its annotation."""

    pod: str
    node: str
    devices: str


@dataclass(frozen=True, slots=True)
class EvictedPods:
    """Victims of one gang, to be evicted first."""

    gang: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedGang:
    """A gang that is placed."""

    gang: str
    queue: str
    pods: tuple[PlacedPod, ...]
    evicted: tuple[EvictedPods, ...]


@dataclass(frozen=True, slots=True)
class RejectedGang:
    """An unschedulable gang, and why."""

    gang: str
    queue: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class BackfillReservationReport:
    """Capacity reserved by backfill for a gang that has been pending for long."""

    gang: str
    at: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchedulingDecisions:
    """Placed gangs in the order of the decisions, and unschedulable ones."""

    now: float
    placed: tuple[PlacedGang, ...]
    rejected: tuple[RejectedGang, ...]
    reservation: BackfillReservationReport | None


def replay_snapshot(cluster_snapshot: ClusterSnapshot) -> SchedulingDecisions:
    """Schedule all pending gangs of a snapshot."""
    cluster = cluster_snapshot.to_cluster()
    plan = cluster_snapshot.build_planner(cluster).schedule(
        cluster_snapshot.pending_gangs, cluster_snapshot.now
    )
    return to_scheduling_decisions(cluster_snapshot, cluster, plan)


def to_scheduling_decisions(
    cluster_snapshot: ClusterSnapshot, cluster: Cluster, plan: Plan
) -> SchedulingDecisions:
    """A plan by names; `cluster` is the cluster after the plan."""
    not_ready = (
        RejectedGang(name, "", each.reason, each.message)
        for name, each in cluster_snapshot.not_ready.items()
    )
    reservation = plan.backfill_reservation
    return SchedulingDecisions(
        cluster_snapshot.now,
        tuple(to_placed_gang(cluster, placement) for placement in plan.placements),
        (
            *_to_rejected_gangs(cluster_snapshot, cluster, plan.unschedulable, reservation),
            *not_ready,
        ),
        None
        if reservation is None
        else BackfillReservationReport(
            reservation.gang.name, reservation.start_time, reservation.nodes
        ),
    )


def to_placed_gang(cluster: Cluster, placement: GangPlacement) -> PlacedGang:
    """A placement by names."""
    names = cluster.snapshot.names
    pods = (
        PlacedPod(
            pod_placement.pod, names[pod_placement.row], encode_devices(pod_placement.devices)
        )
        for pod_placement in placement.pods
    )
    return PlacedGang(
        placement.gang.name,
        placement.gang.queue,
        tuple(sorted(pods, key=lambda each: each.pod)),
        tuple(EvictedPods(unit.gang, tuple(sorted(unit.pods))) for unit in placement.victims),
    )


def explain_rejection(
    cluster_snapshot: ClusterSnapshot, cluster: Cluster, plan: Plan, rejection: UnschedulableGang
) -> Explanation:
    """Why a gang is unschedulable, as `kilonova why` says it; `cluster` is that after the plan."""
    return explain(
        cluster,
        cluster_snapshot.build_scoring(),
        cluster_snapshot.policy,
        rejection.gang,
        rejection.reason,
        cluster_snapshot.now,
        plan.backfill_reservation,
        pending=[each.gang for each in plan.unschedulable],
    )


def _to_rejected_gangs(
    cluster_snapshot: ClusterSnapshot,
    cluster: Cluster,
    rejections: Iterable[UnschedulableGang],
    reservation: BackfillReservation | None,
) -> Iterable[RejectedGang]:
    explainer = Explainer(cluster, cluster_snapshot.build_scoring(), cluster_snapshot.policy)
    remaining = count(_MAX_EXPLAINED, -1)

    def insufficient_capacity_message(
        rejection: UnschedulableGang, reservation: BackfillReservation | None
    ) -> str:
        if next(remaining) <= 0:
            return "insufficient capacity"
        explanation = explainer.explain(
            rejection.gang, rejection.reason, cluster_snapshot.now, reservation
        )
        return explanation.message

    for rejected_gang in rejections:
        result = rejected_result(rejected_gang, reservation, insufficient_capacity_message)
        yield RejectedGang(
            rejected_gang.gang.name, rejected_gang.gang.queue, result.reason, result.message
        )
