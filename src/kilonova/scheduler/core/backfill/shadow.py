"""EASY backfill: holds capacity for a gang that waits for others to end, while smaller gangs run.

For a gang that has been pending for too long, the earliest time is computed at which it would fit
if running gangs end as expected. The cluster at that time, with the gang placed, is the **shadow**.
A gang that ends before may use any free capacity; any other must fit both now and in the shadow. So
backfilled gangs never delay the reserved one.

The run time of a gang is declared or predicted; without either, it is assumed to run for as long as
it has run already.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import has_anti_affinity_conflict
from kilonova.scheduler.core.gpu.assignment import are_free, make_placements
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree

Times = NDArray[np.float64]

_MIN_REMAINING_SECONDS = 600.0
"""Minimum assumed remaining run time of gangs without a known duration, in seconds."""
_INITIAL_ENDS = 64


def expected_end(running_gang: RunningGang, now: float) -> float:
    """The expected end of a gang; one that exceeds its duration is assumed to go on for a while."""
    ran = now - running_gang.since
    if running_gang.gang.duration is not None and running_gang.gang.duration > ran:
        return running_gang.since + running_gang.gang.duration
    return now + max(ran, _MIN_REMAINING_SECONDS)


def expected_ends(start_times: Times, durations: Times, now: float) -> Times:
    """`expected_end` of many gangs; an unknown duration is NaN."""
    ran = now - start_times
    return np.where(
        durations > ran, start_times + durations, now + np.maximum(ran, _MIN_REMAINING_SECONDS)
    )


@dataclass(frozen=True, slots=True)
class BackfillReservation:
    """The expected start of a gang, and its nodes."""

    gang: Gang
    start_time: float
    nodes: tuple[str, ...]


class ShadowCluster:
    """The cluster at the expected start of a reserved gang."""

    def __init__(
        self,
        reservation: BackfillReservation,
        reserved_pods: Iterable[str],
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
    ) -> None:
        self.reservation = reservation
        self._reserved_pods = frozenset(reserved_pods)
        self.feasibility = feasibility
        self._snapshot = snapshot

    def ends_before(self, gang: Gang, now: float) -> bool:
        """Whether a gang that starts now ends before the expected start."""
        return gang.duration is not None and now + gang.duration <= self.reservation.start_time

    def try_add(self, placements: Sequence[PodPlacement], removed_pods: Iterable[str] = ()) -> bool:
        """Adds placements, after removing pods, to the shadow; returns False, and changes nothing,
        if the reserved gang would be delayed."""
        trial = self._snapshot.begin_trial()
        self._snapshot.remove_pods(
            [pod for pod in removed_pods if pod in self._snapshot.placements]
        )
        if all(self._try_add_pod(placement) for placement in placements):
            self._snapshot.commit(trial)
            return True
        self._snapshot.rollback(trial)
        return False

    def _try_add_pod(self, placement: PodPlacement) -> bool:
        """Adds a pod with the devices that it has now; if the reserved gang has them in the shadow,
        that one gets other devices of the node."""
        row = placement.row
        if self.feasibility.free_capacity(placement.shape)[row] < 1:
            return False
        if has_anti_affinity_conflict(self._snapshot, placement.member, row):
            return False
        moved: list[PodPlacement] = []
        if not are_free(self._snapshot, row, placement.devices):
            here = [pod for pod in self._snapshot.pods_on[row] if pod in self._reserved_pods]
            moved = self._snapshot.remove_pods(here)
            if not are_free(self._snapshot, row, placement.devices):
                return False
        one = make_placements(self._snapshot, row, [placement.member], placement.gang)[0]
        self._snapshot.add_pod(replace(one, devices=placement.devices))
        for each in moved:
            if self.feasibility.free_capacity(each.shape)[row] < 1:
                return False
            self._snapshot.add_pods(make_placements(self._snapshot, row, [each.member], each.gang))
        return True


def reserve_capacity(
    cluster: Cluster, feasibility: FeasibilityCache, placer: Placer, gang: Gang, now: float
) -> ShadowCluster | None:
    """The shadow with the earliest start of a gang; None if it would not fit even on an empty
    cluster."""
    snapshot, least = cluster.snapshot, gang.only_required_members()
    fit = find_earliest_fit(cluster, placer, least, now)
    if fit is None:
        return None
    trial = snapshot.begin_trial()
    try:
        for name in fit.ended_gangs:
            snapshot.remove_pods(list(cluster.running_gangs[name].pods))
        placements = placer.place(least)
        if placements is None:  # finding the start exceeded the search budget
            return None
        pods = [placement.pod for placement in placements]
        nodes = tuple(sorted({snapshot.names[placement.row] for placement in placements}))
        copied = snapshot.copy()
        return ShadowCluster(
            BackfillReservation(gang, fit.start_time, nodes),
            pods,
            copied,
            feasibility.for_snapshot(copied),
        )
    finally:
        snapshot.rollback(trial)


@dataclass(frozen=True, slots=True)
class EarliestFit:
    """When a gang would fit, and which gangs have ended by then, in order."""

    start_time: float
    ended_gangs: tuple[str, ...]


def find_earliest_fit(
    cluster: Cluster, placer: Placer, gang: Gang, now: float, max_pods: int | None = None
) -> EarliestFit | None:
    """The earliest time at which a gang fits if others end as expected; None if there is none, or
    if more than `max_pods` pods would have to end before. A gang with pending surplus pods does not
    wait for its own end.

    The cost depends on what has to end, not on all that runs: a bound is searched first, then the
    placement.
    """
    root = build_gang_tree(gang)
    search = _EarliestFitSearch(cluster, gang.name, now, max_pods)
    bound = search.count_until(0, lambda: placer.can_fit(root))
    found = None if bound is None else search.count_until(bound, lambda: placer.can_place(gang))
    if found is None:
        return None
    ended = search.ends.list_first(found)
    return EarliestFit(ended[-1][0] if ended else now, tuple(name for _, name in ended))


class _EarliestFitSearch:
    """Doubling search forwards, then binary search."""

    def __init__(self, cluster: Cluster, gang: str, now: float, max_pods: int | None) -> None:
        self._cluster = cluster
        self._max_pods = max_pods
        self.ends = _ExpectedEnds(cluster, gang, now)

    def count_until(self, start: int, holds: Callable[[], bool]) -> int | None:
        """How many gangs, at least `start`, must have ended for a condition to hold."""
        snapshot = self._cluster.snapshot
        running = len(snapshot.placements)
        savepoint = snapshot.begin_trial()
        self._remove_ended(0, start)
        removed, found, step = start, start if holds() else None, 1
        while found is None or found - removed > 1:
            ended = running - len(snapshot.placements)
            if found is None and (
                removed == len(self.ends) or (self._max_pods is not None and ended > self._max_pods)
            ):
                break
            end = min(removed + step, len(self.ends)) if found is None else (removed + found) // 2
            trial = snapshot.begin_trial()
            self._remove_ended(removed, end)
            if holds():
                snapshot.rollback(trial)
                found = end
            else:
                snapshot.commit(trial)
                removed, step = end, 2 * step
        snapshot.rollback(savepoint)
        return found

    def _remove_ended(self, first: int, last: int) -> None:
        running_gangs = self._cluster.running_gangs
        ended = self.ends.list_first(last)[first:]
        pods = [pod for _, name in ended for pod in running_gangs[name].pods]
        self._cluster.snapshot.remove_pods(pods)


class _ExpectedEnds:
    """Expected ends of gangs, in order. There may be a hundred thousand of which the first few
    matter: only these are sorted."""

    def __init__(self, cluster: Cluster, gang: str, now: float) -> None:
        self._gang_names = [name for name in cluster.running_gangs if name != gang]
        running_gangs = [one for name, one in cluster.running_gangs.items() if name != gang]
        since = np.array([one.since for one in running_gangs])
        durations = [one.gang.duration for one in running_gangs]
        known = np.array([math.nan if each is None else each for each in durations])
        self._end_times = expected_ends(since, known, now)
        self._sorted_ends: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._gang_names)

    def list_first(self, count: int) -> list[tuple[float, str]]:
        """The first `count` ends, each with the name of its gang."""
        if count > len(self._sorted_ends):
            most = min(len(self), max(_INITIAL_ENDS, 2 * count))
            latest = float(np.partition(self._end_times, most - 1)[most - 1])
            sooner = np.flatnonzero(self._end_times < latest)
            then = np.flatnonzero(self._end_times == latest)
            names = heapq.nsmallest(most - len(sooner), [self._gang_names[each] for each in then])
            early = sorted(
                (float(self._end_times[each]), self._gang_names[each]) for each in sooner
            )
            self._sorted_ends = [*early, *((latest, name) for name in names)]
        return self._sorted_ends[:count]
