"""Explains the placement of a pod or gang, or why it is pending. The fields are the JSON output."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.convert.gangs.pod_groups import POD_GROUP_KINDS
from kilonova.scheduler.convert.gangs.podgangs import (
    GangNotReady,
    gang_object_key,
    single_pod_gang_name,
)
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    is_reservation_gang,
    reservation_gang_name,
)
from kilonova.scheduler.core.explain import (
    Explanation,
    PodPlacementScore,
    explain_placement,
)
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.library.decisions import (
    EvictedPods,
    PlacedGang,
    explain_rejection,
    to_placed_gang,
)
from kilonova.scheduler.library.placement_problems import describe_placement_problem
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot

_MAX_SCORED_PODS = 8
"""At most this many placed pods are scored again."""


@dataclass(frozen=True, slots=True)
class PlacedPodReport:
    """A placed pod and its score as of now."""

    pod: str
    node: str
    devices: str
    score: PodPlacementScore | None
    problem: str = ""
    """Problems of its devices or its node."""


@dataclass(frozen=True, slots=True)
class PlacementReport:
    """The state of a pod or gang. `Schedulable` means that the next scheduling cycle places it."""

    subject: str
    gang: str
    queue: str
    state: Literal["Placed", "Unschedulable", "Schedulable", "NotReady"]
    since: float | None
    """When it was placed."""
    pods: tuple[PlacedPodReport, ...]
    explanation: Explanation | None
    planned_placement: PlacedGang | None
    not_ready: GangNotReady | None

    @property
    def evicted(self) -> tuple[EvictedPods, ...]:
        """The victims that would be evicted for it."""
        return self.planned_placement.evicted if self.planned_placement is not None else ()


def report_placement(
    cluster_snapshot: ClusterSnapshot,
    namespace: str,
    name: str,
    unserved: Mapping[str, GangNotReady] | None = None,
) -> PlacementReport | None:
    """Explain the gang, or else the pod, of a name; None if there is none. `unserved` are pods that
    are gated or of other schedulers."""
    key = f"{namespace}/{name}"
    cluster = cluster_snapshot.to_cluster()
    gang = _find_gang_name(cluster_snapshot, key)
    pod_placement = cluster.snapshot.placements.get(key)
    if gang is None and pod_placement is None:
        not_served = (unserved or {}).get(key)
        return not_served and PlacementReport(
            key, single_pod_gang_name(key), "", "NotReady", None, (), None, None, not_served
        )
    if gang is None and pod_placement is not None:
        gang = pod_placement.gang or key
    assert gang is not None
    pod_placements = _pod_placements_of(cluster, gang, pod_placement)
    running_gang = cluster.running_gangs.get(gang)
    pending = next((each for each in cluster_snapshot.pending_gangs if each.name == gang), None)
    pods = tuple(
        _report_placed_pod(cluster_snapshot, cluster, each, n)
        for n, each in enumerate(pod_placements)
    )
    explanation, placed_gang = (
        (None, None)
        if pending is None
        else _explain_waiting_gang(cluster_snapshot, cluster, pending)
    )
    queue = (
        pending.queue if pending is not None else running_gang.gang.queue if running_gang else ""
    )
    not_ready = cluster_snapshot.not_ready.get(gang)
    state = "Placed"
    if pending is not None:
        state = "Schedulable" if placed_gang is not None else "Unschedulable"
    elif not_ready is not None:
        state = "NotReady"
    since = running_gang.since if running_gang is not None else None
    return PlacementReport(
        key, gang, queue, state, since, pods, explanation, placed_gang, not_ready
    )


def reportable_names(cluster_snapshot: ClusterSnapshot) -> Iterable[str]:
    """All pods and gangs that can be reported, as NAMESPACE/NAME."""
    gangs = {
        *(gang.name for gang in cluster_snapshot.pending_gangs),
        *(running_gang.gang.name for running_gang in cluster_snapshot.running_gangs),
        *cluster_snapshot.not_ready,
    }
    pods = {
        member.pod
        for gang in cluster_snapshot.pending_gangs
        for group in gang.groups
        for member in group.members
    }
    pods |= {pod for why in cluster_snapshot.not_ready.values() for pod in why.pods}
    return sorted(
        {gang_object_key(name) for name in gangs}
        | pods
        | {each.pod for each in cluster_snapshot.placements if not is_reservation_gang(each.gang)}
    )


def _find_gang_name(cluster_snapshot: ClusterSnapshot, key: str) -> str | None:
    """The gang of that name, or the gang of the pod of that name."""
    gangs = [
        *cluster_snapshot.pending_gangs,
        *(running_gang.gang for running_gang in cluster_snapshot.running_gangs),
    ]
    names = {gang.name for gang in gangs} | cluster_snapshot.not_ready.keys()
    reservation = reservation_gang_name(*key.split("/", 1))
    for name in (
        key,
        single_pod_gang_name(key),
        *(f"{kind}/{key}" for kind in POD_GROUP_KINDS),
        reservation,
    ):
        if name in names:
            return name
    incomplete = (name for name, why in cluster_snapshot.not_ready.items() if key in why.pods)
    return next((gang.name for gang in gangs if _has_pod(gang, key)), next(incomplete, None))


def _has_pod(gang: Gang, pod: str) -> bool:
    return any(
        member.pod == pod
        for group in gang.groups
        for member in (*group.members, *group.placed_members)
    )


def _pod_placements_of(
    cluster: Cluster, gang: str, pod_placement: PodPlacement | None
) -> list[PodPlacement]:
    running_gang = cluster.running_gangs.get(gang)
    if running_gang is None:
        return [] if pod_placement is None else [pod_placement]
    return [cluster.snapshot.placements[pod] for pod in sorted(running_gang.pods)]


def _report_placed_pod(
    cluster_snapshot: ClusterSnapshot, cluster: Cluster, pod_placement: PodPlacement, number: int
) -> PlacedPodReport:
    snapshot = cluster.snapshot
    scored = number < _MAX_SCORED_PODS and not is_reservation_gang(pod_placement.gang)
    score = (
        explain_placement(snapshot, pod_placement, cluster_snapshot.build_scoring())
        if scored
        else None
    )
    node, devices = snapshot.names[pod_placement.row], encode_devices(pod_placement.devices)
    return PlacedPodReport(
        pod_placement.pod, node, devices, score, describe_placement_problem(snapshot, pod_placement)
    )


def _explain_waiting_gang(
    cluster_snapshot: ClusterSnapshot, cluster: Cluster, gang: Gang
) -> tuple[Explanation | None, PlacedGang | None]:
    """Why a gang is unschedulable, or its placement. Changes the cluster."""
    plan = cluster_snapshot.build_planner(cluster).schedule(
        cluster_snapshot.pending_gangs, cluster_snapshot.now
    )
    for placement in plan.placements:
        if placement.gang.name == gang.name:
            return None, to_placed_gang(cluster, placement)
    rejection = next(each for each in plan.unschedulable if each.gang.name == gang.name)
    return explain_rejection(cluster_snapshot, cluster, plan, rejection), None
