"""How many copies of a gang fit in a snapshot, and where. Pure; the snapshot is not changed.

Copies are scheduled one after the other, each by a scheduling cycle with the gangs that are
pending, as the scheduler would if they were created at the time of the snapshot: gangs that come
first get their capacity first, and what backfill holds back stays held. The first copy that is not
placed ends the search, with its explanation.

A copy that may preempt is placed like any other, with its victims; for free capacity alone, ask for
copies of a gang that does not preempt.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice

from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, Plan, UnschedulableGang
from kilonova.scheduler.core.explain import Explanation
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import is_queue_resource
from kilonova.scheduler.library.decisions import EvictedPods, explain_rejection
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.topology_levels import (
    DomainPath,
    common_domain,
    domain_path,
    find_topology_levels,
    format_domain,
)
from kilonova.scheduler.status.results import SEARCH_BUDGET_EXCEEDED, rejected_result

MAX_ATTEMPTS = 2_000
"""Attempts to place a gang, of pending ones as of copies. More are needed only where capacity is
held back for one of many pending gangs, which then are scheduled again with each copy."""


@dataclass(frozen=True, slots=True)
class CopyPod:
    """Where a pod of a copy would be placed."""

    pod: str
    group: str
    node: str
    domain: str
    """The path of its node in the topology."""
    devices: str
    """Its GPUs, as in its annotation."""
    resources: Mapping[str, int]
    """The extended resources that it requests."""


@dataclass(frozen=True, slots=True)
class PlacedCopy:
    """A copy that fits. Pods are in the order of their groups and ranks."""

    gang: str
    domain: str
    """The smallest domain, as a path, that has all its pods with extended resources, or all pods if
    none has any; empty if there is no such domain."""
    pods: tuple[CopyPod, ...]
    evicted: tuple[EvictedPods, ...] = ()
    """Victims that would be evicted for it."""


@dataclass(frozen=True, slots=True)
class UnplacedCopy:
    """The first copy that does not fit, and why: reason and message as in conditions of gangs."""

    gang: str
    reason: str
    message: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies that fit, in the order in which they were placed."""

    placed: tuple[PlacedCopy, ...]
    unplaced: UnplacedCopy | None
    """None if the search ended at its limit."""

    @property
    def count(self) -> int:
        """The number of copies that fit."""
        return len(self.placed)

    @property
    def is_exact(self) -> bool:
        """Whether no more than these fit: neither the number of copies nor the search for a
        placement ended at its limit."""
        return self.unplaced is not None and self.unplaced.reason != SEARCH_BUDGET_EXCEEDED


def count_copies(
    cluster_snapshot: ClusterSnapshot, gang: Gang, limit: int, levels: Iterable[str] = ()
) -> Copies:
    """Place copies of a gang until one does not fit, at most `limit`. The first one has the gang's
    name and pods, unless the snapshot has them already; those of others are numbered."""
    new = replace(gang, created=cluster_snapshot.now)
    copies = islice(number_copies(new, _names_in_use(cluster_snapshot)), limit)
    return CopyPlacer(cluster_snapshot, levels).place(copies)


class CopyPlacer:
    """Places copies in one snapshot, each series independent of the others.

    `levels` are those of domains, broadest first; without them the scheduler's, those of the
    cluster's ClusterTopologyBinding, or those that the nodes have.
    """

    def __init__(self, cluster_snapshot: ClusterSnapshot, levels: Iterable[str] = ()) -> None:
        self._snapshot = cluster_snapshot
        self._cluster = cluster_snapshot.to_cluster()
        self._planner = cluster_snapshot.build_planner(self._cluster)
        self._labels = {node.name: node.labels for node in cluster_snapshot.nodes}
        self._levels = (
            tuple(levels)
            or cluster_snapshot.policy.levels
            or cluster_snapshot.topology_levels
            or find_topology_levels(self._labels.values())
        )

    def place(self, gangs: Iterable[Gang]) -> Copies:
        """Place gangs one after the other, until one does not fit."""
        placed: list[PlacedCopy] = []
        with self._cluster.trial():
            pending, attempts = self._snapshot.pending_gangs, 0
            for gang in gangs:
                attempts += 1 + len(pending)
                if attempts > MAX_ATTEMPTS and placed:
                    break
                plan = self._planner.schedule([*pending, gang], self._snapshot.now)
                placement = _find_placement(plan, gang)
                if placement is None:
                    return Copies(tuple(placed), self._explain(plan, gang))
                placed.append(self._to_placed_copy(placement))
                pending = _still_pending(plan)
        return Copies(tuple(placed), None)

    def _to_placed_copy(self, placement: GangPlacement) -> PlacedCopy:
        names = self._cluster.snapshot.names
        found = {each.pod: each for each in placement.pods}
        pods: list[CopyPod] = []
        paths: list[DomainPath] = []
        accelerated: list[DomainPath] = []
        for group, pod in _pods_in_order(placement.gang):
            if pod not in found:
                continue
            node = names[found[pod].row]
            path = domain_path(self._labels[node], self._levels)
            devices, resources = encode_devices(found[pod].devices), _extended_resources(found[pod])
            pods.append(CopyPod(pod, group, node, format_domain(path), devices, resources))
            (accelerated if resources else paths).append(path)
        victims = (EvictedPods(unit.gang, tuple(sorted(unit.pods))) for unit in placement.victims)
        domain = format_domain(common_domain(accelerated or paths))
        return PlacedCopy(placement.gang.name, domain, tuple(pods), tuple(victims))

    def _explain(self, plan: Plan, gang: Gang) -> UnplacedCopy:
        rejection = next(each for each in plan.unschedulable if each.gang.name == gang.name)
        reservation = plan.backfill_reservation
        explanation = explain_rejection(self._snapshot, self._cluster, plan, rejection)

        def message(_: UnschedulableGang, __: BackfillReservation | None) -> str:
            return explanation.message

        result = rejected_result(rejection, reservation, message)
        return UnplacedCopy(gang.name, result.reason, result.message, explanation)


def number_copies(gang: Gang, names_in_use: frozenset[str] = frozenset()) -> Iterator[Gang]:
    """A gang again and again, under names of gang and pods that are not in use. What refers to the
    objects of one gang, its Reservation and the nodes of its predecessor, is left out."""
    single = replace(gang, reservation="", previous_nodes=())
    for number in count():
        suffix = f"-{number}" if number else ""
        names = {
            f"{name}{suffix}" for name in (gang.name, *(pod for _, pod in _pods_in_order(gang)))
        }
        if names.isdisjoint(names_in_use):
            groups = (_rename_members(group, suffix) for group in gang.groups)
            yield replace(single, name=f"{gang.name}{suffix}", groups=tuple(groups))


def _names_in_use(cluster_snapshot: ClusterSnapshot) -> frozenset[str]:
    names = {placement.pod for placement in cluster_snapshot.placements}
    names.update(cluster_snapshot.not_ready)
    for gang in (
        *cluster_snapshot.pending_gangs,
        *(running_gang.gang for running_gang in cluster_snapshot.running_gangs),
    ):
        names.add(gang.name)
        names.update(pod for _, pod in _pods_in_order(gang))
    return frozenset(names)


def _extended_resources(placement: PodPlacement) -> dict[str, int]:
    return {
        name: amount
        for name, amount in placement.shape.requests
        if "/" in name and is_queue_resource(name) and amount
    }


def _pods_in_order(gang: Gang) -> Iterator[tuple[str, str]]:
    """The group and the name of each pod."""
    return ((group.name, member.pod) for group in gang.groups for member in group.members)


def _rename_members(group: Group, suffix: str) -> Group:
    def rename(member: Member) -> Member:
        return replace(member, pod=f"{member.pod}{suffix}")

    return replace(group, members=tuple(map(rename, group.members))) if suffix else group


def _find_placement(plan: Plan, gang: Gang) -> GangPlacement | None:
    return next((each for each in plan.placements if each.gang.name == gang.name), None)


def _still_pending(plan: Plan) -> tuple[Gang, ...]:
    """The gangs to schedule again with the next copy. A gang that did not fit does not fit with one
    copy more either: it matters only if capacity is held back for one of them."""
    if plan.backfill_reservation is None:
        return ()
    return tuple(each.gang for each in plan.unschedulable)
