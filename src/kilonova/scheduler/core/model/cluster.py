"""Everything a decision depends on: nodes and placed pods, queues and their usage, running
gangs."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.dra.claims import ClaimRequest
from kilonova.scheduler.core.dra.queue_charges import (
    ChargedPod,
    ClaimSharers,
    charges_by_claim,
    requested_charges,
)
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape, is_queue_resource
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueForest, ResourceAmounts
from kilonova.scheduler.core.queueing.usage_history import UsageHistory

_HALF_LIFE = 24 * 3600.0


@dataclass(slots=True)
class RunningGang:
    """A gang with placed pods. `pods` maps each of them to the amounts charged to the gang's
    queue."""

    gang: Gang
    since: float
    pods: dict[str, ResourceAmounts] = field(default_factory=dict[str, ResourceAmounts])


@dataclass(frozen=True, slots=True)
class SavedCluster:
    """The state that `Cluster.save` returns."""

    running_gangs: dict[str, RunningGang]
    used: Ledger
    budgets: dict[str, int]
    claim_sharers: ClaimSharers


class UsageRecorder(Protocol):
    """Where the usage of queues is counted."""

    def charge(self, queue: str, amounts: ResourceAmounts) -> None: ...
    def discharge(self, queue: str, amounts: ResourceAmounts) -> None: ...


class Cluster:
    """Nodes, queues and gangs. Placements of gangs are changed through `record_placed` and
    `record_removed`, so that the usage of queues stays correct; pods that are charged to no queue
    may be added to the snapshot alone."""

    def __init__(self, forest: QueueForest | None = None, half_life: float = _HALF_LIFE) -> None:
        self.snapshot = Snapshot()
        self.used = Ledger(forest or build_queue_forest(()))
        self.history = UsageHistory(half_life)
        self.running_gangs: dict[str, RunningGang] = {}
        self.priorities: dict[str, Counter[int]] = {}
        """Number of running gangs by priority, for each queue that has any."""
        self.budgets: dict[str, int] = {}
        """Pods that each disruption budget still allows to be evicted."""
        self._claim_sharers = ClaimSharers()
        self._claim_sharers_are_shared = False
        """Whether the sharers belong to the state before a trial: copied before the first
        change."""
        self._originals: dict[str, RunningGang | None] | None = None
        """In a trial, the original state of each gang that changed."""
        self._capacity: ResourceAmounts = {}
        self._capacity_position = -1

    @property
    def forest(self) -> QueueForest:
        return self.used.forest

    def replace_queues(self, forest: QueueForest) -> None:
        """Replaces the queues and recomputes their usage."""
        self._claim_sharers = self._rebuild_claim_sharers()
        self.used = Ledger(forest)
        for running_gang in self.running_gangs.values():
            for amounts in running_gang.pods.values():
                self.used.charge(running_gang.gang.queue, amounts)
        self._count_priorities()

    @contextmanager
    def trial(self) -> Generator[None]:
        """Rolls back on exit every change made through `record_placed`, `record_removed` and the
        snapshot. The cost is proportional to the changes, not to the size of the cluster."""
        outer = self._originals, self._claim_sharers, self._claim_sharers_are_shared
        used, budgets = self.used.copy(), dict(self.budgets)
        savepoint = self.snapshot.begin_trial()
        before: dict[str, RunningGang | None] = {}
        self._originals = before
        self._claim_sharers_are_shared = True
        try:
            yield
        finally:
            self.snapshot.rollback(savepoint)
            for name, running_gang in before.items():
                now = self.running_gangs.pop(name, None)
                if now is not None:
                    self._count_priority(now.gang, -1)
                if running_gang is not None:
                    self.running_gangs[name] = running_gang
                    self._count_priority(running_gang.gang, 1)
            self.used, self.budgets = used, budgets
            self._originals, self._claim_sharers, self._claim_sharers_are_shared = outer

    def save(self) -> "SavedCluster":
        """Gangs and queues as they are, for `restore`. Placements are rolled back by the
        snapshot."""
        running_gangs = {
            name: RunningGang(one.gang, one.since, dict(one.pods))
            for name, one in self.running_gangs.items()
        }
        return SavedCluster(
            running_gangs, self.used.copy(), dict(self.budgets), self._claim_sharers.copy()
        )

    def restore(self, saved: "SavedCluster") -> None:
        self.running_gangs, self.used = saved.running_gangs, saved.used
        self.budgets, self._claim_sharers = saved.budgets, saved.claim_sharers
        self._count_priorities()

    def copy(self) -> "Cluster":
        """An independent copy of nodes, queues and gangs."""
        other = Cluster(self.forest)
        other.snapshot, other.history = self.snapshot.copy(), self.history
        other.restore(self.save())
        return other

    def capacity(self) -> ResourceAmounts:
        """The allocatable amounts of all nodes together, in the units of queues. Resources that no
        node has are not listed."""
        snapshot = self.snapshot
        if self._capacity_position != snapshot.spec_changes.position:
            total = snapshot.allocatable[:, : snapshot.size].sum(axis=1, dtype=np.float64)
            self._capacity = {
                name: int(total[column]) * (MILLI_PER_GPU if name == GPU else 1)
                for name, column in snapshot.resources.items()
                if name != PODS and is_queue_resource(name) and total[column] > 0
            }
            self._capacity_position = snapshot.spec_changes.position
        return self._capacity

    def record_placed(
        self,
        gang: Gang,
        placements: Iterable[PodPlacement],
        now: float,
        usage: "UsageRecorder | None" = None,
    ) -> None:
        """Records placements, already added to the snapshot, as those of a gang."""
        self._save_original(gang.name)
        running_gang = self.running_gangs.get(gang.name)
        if running_gang is None:
            running_gang = self.running_gangs[gang.name] = RunningGang(gang, now)
        else:
            self._count_priority(running_gang.gang, -1)
        running_gang.gang = gang
        self._count_priority(gang, 1)
        total: dict[str, int] = {}
        for shape, same_shape in _group_by_shape(placements).items():
            if not shape.claims:
                amounts = shape_charges(shape)
                running_gang.pods.update((placement.pod, amounts) for placement in same_shape)
                _add_amounts(total, amounts, len(same_shape))
                continue
            for placement in same_shape:
                running_gang.pods[placement.pod] = own = self.queue_charges((placement,))
                self._record_claim_users(gang.name, placement)
                _add_amounts(total, own, 1)
        (usage or self.used).charge(gang.queue, total)

    def with_gangs_to_avoid(self, gang: Gang) -> Gang:
        """The gang with the nodes that its anti-affinity has to avoid now."""
        anti_affinity = gang.anti_affinity
        if anti_affinity is None or not anti_affinity.group_key:
            return gang
        rows = {
            self.snapshot.placements[pod].row
            for name, running_gang in self.running_gangs.items()
            if name != gang.name
            and running_gang.gang.anti_affinity is not None
            and running_gang.gang.anti_affinity.group_key == anti_affinity.group_key
            for pod in running_gang.pods
        }
        others = tuple(sorted(self.snapshot.names[row] for row in rows))
        return replace(gang, anti_affinity=replace(anti_affinity, avoided_nodes=others))

    def nodes_of_gang(self, gang: str) -> tuple[str, ...] | None:
        """The nodes of a gang's pods, sorted; None if it is not placed."""
        running_gang = self.running_gangs.get(gang)
        if running_gang is None:
            return None
        rows = {self.snapshot.placements[pod].row for pod in running_gang.pods}
        return tuple(sorted(self.snapshot.names[row] for row in rows))

    def record_removed(
        self, gang: str, pods: Iterable[str], usage: "UsageRecorder | None" = None
    ) -> None:
        """Records that pods of a gang were removed; the caller removes them from the snapshot."""
        self._save_original(gang)
        running_gang = self.running_gangs[gang]
        for pod in pods:
            (usage or self.used).discharge(running_gang.gang.queue, running_gang.pods.pop(pod))
            if self._claim_sharers.uses_shared_claim(pod):
                for successor in self._writable_claim_sharers().remove_user(pod):
                    self._charge_successor(successor, usage or self.used)
        if not running_gang.pods:
            del self.running_gangs[gang]
            self._count_priority(running_gang.gang, -1)

    def queue_charges(
        self, placements: Iterable[PodPlacement], claimed: set[str] | None = None
    ) -> Counter[str]:
        """What pods are charged for the devices they actually have. A claim that is already charged
        to another pod, or is in `claimed`, is not charged again; the claims of these pods are added
        to `claimed`."""
        total: Counter[str] = Counter()
        known = set[str]() if claimed is None else claimed
        for placement in placements:
            total.update(_requested_charges(placement.shape))
            for claim, amounts in charges_by_claim(placement):
                if claim not in known and not self._claim_sharers.is_charged(claim):
                    total.update(amounts)
                if claim:
                    known.add(claim)
        return total

    def _record_claim_users(self, gang: str, placement: PodPlacement) -> None:
        for claim, amounts in charges_by_claim(placement):
            if claim:
                self._writable_claim_sharers().add_user(claim, gang, placement.pod, amounts)

    def _charge_successor(self, successor: ChargedPod, usage: "UsageRecorder") -> None:
        """Charges a shared claim to another of its users."""
        self._save_original(successor.gang)
        running_gang = self.running_gangs[successor.gang]
        charged = running_gang.pods[successor.pod]
        running_gang.pods[successor.pod] = Counter(charged) + Counter(successor.amounts)
        usage.charge(running_gang.gang.queue, successor.amounts)

    def _writable_claim_sharers(self) -> ClaimSharers:
        """The claim sharers, copied first if they belong to the state before a trial."""
        if self._claim_sharers_are_shared:
            self._claim_sharers, self._claim_sharers_are_shared = self._claim_sharers.copy(), False
        return self._claim_sharers

    def _save_original(self, name: str) -> None:
        """In a trial, saves the state of a gang before its first change."""
        if self._originals is not None and name not in self._originals:
            one = self.running_gangs.get(name)
            self._originals[name] = one and RunningGang(one.gang, one.since, dict(one.pods))

    def _count_priority(self, gang: Gang, sign: int) -> None:
        counts = self.priorities.setdefault(gang.queue, Counter())
        counts[gang.priority] += sign
        if not counts[gang.priority]:
            del counts[gang.priority]
            if not counts:
                del self.priorities[gang.queue]

    def _count_priorities(self) -> None:
        self.priorities = {}
        for running_gang in self.running_gangs.values():
            self._count_priority(running_gang.gang, 1)

    def _rebuild_claim_sharers(self) -> ClaimSharers:
        """The users of each shared claim, the one that is charged for it first."""
        self._claim_sharers, placements = ClaimSharers(), self.snapshot.placements
        users: list[tuple[bool, str, PodPlacement]] = []
        for name, running_gang in self.running_gangs.items():
            for pod, amounts in running_gang.pods.items():
                placement = placements.get(pod)
                if placement is not None and placement.shape.claims:
                    users.append((amounts != self.queue_charges((placement,)), name, placement))
        for _, name, placement in sorted(users, key=lambda one: one[0]):
            self._record_claim_users(name, placement)
        return self._claim_sharers


def _group_by_shape(placements: Iterable[PodPlacement]) -> dict[Shape, list[PodPlacement]]:
    found: dict[Shape, list[PodPlacement]] = {}
    for placement in placements:
        found.setdefault(placement.member.shape, []).append(placement)
    return found


def _add_amounts(total: dict[str, int], amounts: ResourceAmounts, times: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + times * amount


@lru_cache(maxsize=4096)
def shape_charges(shape: Shape) -> Mapping[str, int]:
    """What a pod of a shape is charged in its queue, claimed devices included. GPUs are charged in
    milli, so that fractions and MIG instances count in proportion."""
    if not shape.claims:
        return _requested_charges(shape)
    total = Counter(_requested_charges(shape))
    for request in shape.claims:
        total.update(requested_charges(request))
    return dict(total)


@lru_cache(maxsize=4096)
def _requested_charges(shape: Shape) -> Mapping[str, int]:
    amounts = {
        name: amount
        for name, amount in shape.requests
        if name not in (PODS, GPU) and is_queue_resource(name) and amount > 0
    }
    request = shape.gpu
    if request is not None:
        amounts[GPU] = max(0, request.count * (request.milli or MILLI_PER_GPU))
    return amounts


def gang_charges(gang: Gang, *, include_surplus: bool = False) -> Mapping[str, int]:
    """What the required pods of a gang are charged in its queue; with `include_surplus`, all its
    pods."""
    if len(gang.groups) == 1 and len(gang.groups[0].members) == gang.groups[0].needed == 1:
        return shape_charges(gang.groups[0].members[0].shape)
    shapes: Counter[Shape] = Counter()
    for group in gang.groups:
        members = group.members if include_surplus else group.members[: group.needed]
        shapes.update(member.shape for member in members)
    total: dict[str, int] = {}
    for shape, count in shapes.items():
        _add_amounts(total, shape_charges(shape), count)
    if any(shape.claims for shape in shapes):
        _deduct_shared_claims(gang, shapes, total)
    return total


def _deduct_shared_claims(gang: Gang, shapes: Mapping[Shape, int], total: dict[str, int]) -> None:
    """Charges a claim that several pods of the gang share only once, and not at all if a placed pod
    of the gang already uses it."""
    placed_claims = {
        request.name
        for group in gang.groups
        for each in group.placed_members
        for request in each.shape.claims
    }
    users: Counter[ClaimRequest] = Counter()
    for shape, count in shapes.items():
        users.update({request: count for request in shape.claims if request.name})
    for request, count in users.items():
        for name, amount in requested_charges(request).items():
            total[name] -= amount * (count if request.name in placed_claims else count - 1)
