"""Capacity for a gang by evicting pods of other gangs: as few pods as can be found.

An upper bound comes from freeing capacity greedily, in the domains in which the gang lacks least.
Then smaller sets are tried, the most promising pods first. In small clusters that is exhaustive; in
large ones it ends with a budget, and the best set found so far is proposed.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.explain.changes.change import FreeCapacity
from kilonova.scheduler.core.explain.diagnosis import find_scarce_resources
from kilonova.scheduler.core.explain.nearest_domain import CandidateDomain, find_gang_domains
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.feasibility import Scores
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.label_columns import ABSENT, NODE_NAME, Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree

_MAX_FREED_PODS = 128
_MAX_DOMAINS = 3
"""Number of domains in which capacity is freed greedily."""
_MAX_PODS_TO_THIN = 16
"""For sets of at most this size, each pod is tested whether it can stay."""
_MAX_CANDIDATES = 128
"""Number of pods of which sets are built."""
_MAX_SETS = 2048
_MAX_SET_NODES = 1 << 17
"""Number of sets tried, and sets times nodes: the cost of trying one grows with the number of
nodes."""
_MAX_ATTEMPTS = 64
"""Attempts to place the gang, of those that a trial cluster has for all kinds of changes."""


def propose_freed_capacity(trial: TrialCluster, gang: Gang) -> Iterator[tuple[FreeCapacity, int]]:
    """The fewest pods of other gangs found whose eviction frees enough capacity."""
    domains = [each for each in find_gang_domains(trial, gang, _MAX_DOMAINS) if each.demands]
    domains = [each for each in domains if each.missing <= _MAX_FREED_PODS]
    if not domains:
        return
    removed = _ReleaseSearch(trial, gang, domains).find_fewest()
    if removed:
        yield _build_change(trial, gang, domains, removed), len(removed)


class _ReleaseSearch:
    """The search for pods to evict, for one gang."""

    def __init__(self, trial: TrialCluster, gang: Gang, domains: Sequence[CandidateDomain]) -> None:
        self._trial = trial
        self._gang = gang
        self._domains = domains
        self._root = build_gang_tree(gang)
        self._max_attempts = trial.attempts + _MAX_ATTEMPTS

    def find_fewest(self) -> list[PodPlacement] | None:
        best: list[PodPlacement] | None = None
        for domain in self._domains:
            if self._is_exhausted:
                break
            found = self._drop_unneeded(self._release_greedily(domain, _count_removed(best)))
            best = found if _count_removed(found) < _count_removed(best) else best
        candidates = self._list_candidates()
        found = self._drop_unneeded(self._release_largest_first(candidates, _count_removed(best)))
        best = found if _count_removed(found) < _count_removed(best) else best
        return self._find_smaller_set(candidates, _count_removed(best)) or best

    @property
    def _is_exhausted(self) -> bool:
        return self._trial.is_exhausted or self._trial.attempts >= self._max_attempts

    def _fits(self) -> bool:
        # The cheap bound first: it costs no attempt.
        return self._trial.placer.can_fit(self._root) and self._trial.fits(self._gang)

    def _fits_without(self, removed: Sequence[PodPlacement]) -> bool:
        with self._trial.without_pods([placement.pod for placement in removed]):
            return self._fits()

    def _could_fit_without(self, removed: Sequence[PodPlacement]) -> bool:
        with self._trial.without_pods([placement.pod for placement in removed]):
            return self._trial.placer.can_fit(self._root)

    def _release_greedily(
        self, domain: CandidateDomain, fewer_than: int
    ) -> list[PodPlacement] | None:
        """Frees capacity for one missing pod of a domain after the other, until the gang fits."""
        trial = self._trial.snapshot.begin_trial()
        try:
            removed = self._release_until_fit(domain)
        finally:
            self._trial.snapshot.rollback(trial)
        return (
            None
            if removed is None
            else self._find_shortest_prefix(removed, min(len(removed), fewer_than - 1))
        )

    def _release_until_fit(self, domain: CandidateDomain) -> list[PodPlacement] | None:
        """Pods removed until the gang fits, and perhaps some more."""
        removed: list[PodPlacement] = []
        for demand in domain.demands:
            releaser = _CapacityReleaser(self._trial, self._gang.name, demand.shape, domain.rows)
            for _ in range(demand.missing):
                removed += releaser.release_for_one_pod()
        # Each group fits by itself now: a little more is needed for all together.
        releaser = _CapacityReleaser(
            self._trial, self._gang.name, domain.largest_shortfall.shape, domain.rows
        )
        step = 1
        while not self._fits():
            more = [placement for _ in range(step) for placement in releaser.release_for_one_pod()]
            removed += more
            step *= 2
            if not more or len(removed) > _MAX_FREED_PODS or self._is_exhausted:
                return None
        return removed

    def _release_largest_first(
        self, candidates: Sequence[PodPlacement], fewer_than: int
    ) -> list[PodPlacement] | None:
        """The first candidates that free enough capacity together."""
        count, most = 1, min(fewer_than - 1, len(candidates))
        while count < most and not self._could_fit_without(candidates[:count]):
            count *= 2
        return self._find_shortest_prefix(candidates, min(2 * count, most))

    def _find_shortest_prefix(
        self, pods: Sequence[PodPlacement], max_count: int
    ) -> list[PodPlacement] | None:
        """The shortest prefix of pods that frees enough capacity: by the cheap bound first, and
        from there by trying."""
        bound = _find_smallest(lambda count: self._could_fit_without(pods[:count]), 1, max_count)
        if bound is None or self._is_exhausted:
            return None
        if self._fits_without(pods[:bound]):
            return list(pods[:bound])
        found = _find_smallest(
            lambda count: not self._is_exhausted and self._fits_without(pods[:count]),
            bound + 1,
            max_count,
        )
        return None if found is None else list(pods[:found])

    def _drop_unneeded(self, removed: list[PodPlacement] | None) -> list[PodPlacement] | None:
        """Those of some pods that have to be evicted."""
        if removed is None or len(removed) > _MAX_PODS_TO_THIN:
            return removed
        for placement in list(removed):
            fewer = [each for each in removed if each is not placement]
            if fewer and not self._is_exhausted and self._fits_without(fewer):
                removed = fewer
        return removed

    def _find_smaller_set(
        self, candidates: Sequence[PodPlacement], fewer_than: int
    ) -> list[PodPlacement] | None:
        """A set of fewer pods, the smallest first."""
        left = min(_MAX_SETS, _MAX_SET_NODES // max(1, self._trial.snapshot.size))
        for size in range(1, min(fewer_than, len(candidates) + 1)):
            for chosen in _iter_sets(candidates, size):
                if left <= 0 or self._is_exhausted:
                    return None
                left -= 1
                if self._fits_without(chosen):
                    return chosen
        return None

    def _list_candidates(self) -> list[PodPlacement]:
        """Pods of other gangs on nodes feasible for pods of the gang, those that free capacity for
        most of them first."""
        trial, name = self._trial, self._gang.name
        found: dict[str, tuple[int, PodPlacement]] = {}
        for shape in {
            shape: None for leaf in self._root.leaves() for shape, _ in leaf.required_shapes
        }:
            rows = trial.live_rows()
            rows = rows[trial.feasibility.rejection_reasons(shape)[rows] == FilterReason.FITS]
            seen = 0
            for row in rows[
                np.argsort(_missing_fractions(trial, shape, rows), kind="stable")
            ].tolist():
                for placement in _list_other_pods(trial, name, row):
                    gain = max(
                        _estimate_gain(trial, shape, placement), found.get(placement.pod, (0,))[0]
                    )
                    found[placement.pod] = gain, placement
                    seen += 1
                if seen >= _MAX_CANDIDATES:
                    break
        order = sorted(found, key=lambda pod: (-found[pod][0], pod))
        return [found[pod][1] for pod in order[:_MAX_CANDIDATES]]


class _CapacityReleaser:
    """Frees capacity for one more pod of a shape at a time, on the row where least is missing."""

    def __init__(self, trial: TrialCluster, gang: str, shape: Shape, rows: Rows) -> None:
        self._trial = trial
        self._gang = gang
        self._shape = shape
        fits = rows[trial.feasibility.rejection_reasons(shape)[rows] == FilterReason.FITS]
        missing = _missing_fractions(trial, shape, fits)
        ranks = trial.snapshot.ranks[fits]
        self._heap = list(zip(missing.tolist(), ranks.tolist(), fits.tolist(), strict=True))
        heapq.heapify(self._heap)

    def release_for_one_pod(self) -> list[PodPlacement]:
        """The pods removed; empty if there is nothing left to remove."""
        while self._heap:
            _, rank, row = heapq.heappop(self._heap)
            removed = self._release_on(row)
            if removed is not None:
                again = float(
                    _missing_fractions(self._trial, self._shape, np.array([row], np.intp))[0]
                )
                heapq.heappush(self._heap, (again, rank, row))
                return removed
        return []

    def _release_on(self, row: int) -> list[PodPlacement] | None:
        snapshot, feasibility, shape = self._trial.snapshot, self._trial.feasibility, self._shape
        before = int(feasibility.free_capacity(shape)[row])
        trial = snapshot.begin_trial()
        removed: list[PodPlacement] = []
        while int(feasibility.free_capacity(shape)[row]) <= before:
            others = _list_other_pods(self._trial, self._gang, row)
            if not others:
                snapshot.rollback(trial)
                return None
            removed += snapshot.remove_pods([self._choose_pod(row, others)])
        snapshot.commit(trial)
        return removed

    def _choose_pod(self, row: int, others: list[PodPlacement]) -> str:
        """The smallest pod that frees enough, else the largest."""
        names, which = find_scarce_resources(self._trial, self._shape, np.array([row], np.intp))
        resource = names[int(which[0])]
        snapshot = self._trial.snapshot
        need = dict(self._shape.requests).get(resource, 1)
        need -= int(snapshot.free[snapshot.column(resource), row]) % max(need, 1)
        sized = sorted((_amount_of(each, resource), each.pod) for each in others)
        return next((pod for size, pod in sized if size >= need), sized[-1][1])


def _list_other_pods(trial: TrialCluster, gang: str, row: int) -> list[PodPlacement]:
    """Pods of other gangs on a node, without the gang's own pods and pods of no gang."""
    return [
        each for each in trial.snapshot.pods_on[row].values() if each.gang and each.gang != gang
    ]


def _missing_fractions(trial: TrialCluster, shape: Shape, rows: Rows) -> Scores:
    """The fraction of a pod's requests that is missing for one more on each row."""
    snapshot = trial.snapshot
    capacity = trial.feasibility.free_capacity(shape)[rows]
    missing = np.zeros(len(rows))
    for name, amount in shape.requests:
        if amount > 0:
            free = snapshot.free[snapshot.column(name), rows]
            missing = np.maximum(missing, ((capacity + 1) * amount - free) / amount)
    if shape.gpu is not None and not shape.gpu.is_whole:
        best = snapshot.usable_gpu_milli(rows).max(axis=1, initial=0)
        missing = np.maximum(missing, 1 - best / max(1, shape.gpu.milli))
    return missing


def _estimate_gain(trial: TrialCluster, shape: Shape, placement: PodPlacement) -> int:
    """About how many more pods of a shape fit if a pod is removed: by amounts, regardless of
    devices."""
    snapshot, has = trial.snapshot, dict(placement.shape.requests)
    capacity = [
        (int(snapshot.free[snapshot.column(name), placement.row]) + has.get(name, 0)) // amount
        for name, amount in shape.requests
        if amount > 0
    ]
    gain = min(capacity, default=0) - int(trial.feasibility.free_capacity(shape)[placement.row])
    if shape.gpu is None or shape.gpu.is_whole or placement.shape.gpu is None:
        return gain
    return min(gain, placement.shape.gpu.count * MILLI_PER_GPU // max(1, shape.gpu.milli))


def _iter_sets(candidates: Sequence[PodPlacement], size: int) -> Iterator[list[PodPlacement]]:
    """Sets of a number of candidates. Equal pods without devices on one node are interchangeable:
    the first ones are used first."""
    before: dict[int, int] = {}
    last: dict[tuple[int, Member], int] = {}
    for index, placement in enumerate(candidates):
        if not placement.devices and not placement.claims:
            same_kind = placement.row, replace(placement.member, pod="")
            if (
                same_kind in last
                and candidates[last[same_kind]].member.labels == placement.member.labels
            ):
                before[index] = last[same_kind]
            last[same_kind] = index
    for chosen in combinations(range(len(candidates)), size):
        if all(before.get(index, index) in chosen for index in chosen):
            yield [candidates[index] for index in chosen]


def _find_smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number for which a condition holds that holds for all larger ones."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _count_removed(removed: Sequence[PodPlacement] | None) -> int:
    return _MAX_FREED_PODS + 1 if removed is None else len(removed)


def _amount_of(placement: PodPlacement, resource: str) -> float:
    """The amount of a resource that a pod has; for shared GPUs, its fraction."""
    request = placement.shape.gpu
    if resource == GPU and request is not None:
        return (
            request.count
            if request.is_whole or not request.milli
            else request.count * request.milli / MILLI_PER_GPU
        )
    return dict(placement.shape.requests).get(resource, 0)


def _build_change(
    trial: TrialCluster, gang: Gang, domains: Sequence[CandidateDomain], removed: list[PodPlacement]
) -> FreeCapacity:
    snapshot, nearest = trial.snapshot, domains[0]
    names, which = find_scarce_resources(trial, nearest.largest_shortfall.shape, nearest.rows)
    resource = names[int(np.bincount(which, minlength=len(names)).argmax())]
    amount = sum(_amount_of(placement, resource) for placement in removed)
    if not nearest.missing and trial.placer.can_fit(build_gang_tree(gang)):
        resource = ""
    level, domain = _find_location(snapshot, nearest.level, removed)
    return FreeCapacity(
        resource,
        amount,
        level,
        domain,
        tuple(sorted({placement.gang for placement in removed})),
        tuple(sorted(placement.pod for placement in removed)),
    )


def _find_location(snapshot: Snapshot, level: str, removed: list[PodPlacement]) -> tuple[str, str]:
    """The node, or the domain of a level, that all of some pods share."""
    rows = sorted({placement.row for placement in removed})
    if len(rows) == 1:
        return NODE_NAME, snapshot.names[rows[0]]
    if not level:
        return "", ""
    codes = np.unique(snapshot.labels.domains(level, np.array(rows, np.intp)))
    if len(codes) != 1 or codes[0] == ABSENT:
        return "", ""
    return level, snapshot.labels.column(level).values[int(codes[0])]
