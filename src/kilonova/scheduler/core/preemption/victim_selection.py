"""Selects victims: the cheapest units after whose eviction a whole gang fits.

Nothing is evicted before the full placement is simulated. For a single pod, one unit that frees
enough on its own node is tried first. Otherwise domains are compared by the cost of freeing
capacity in each: a node for a single pod, a domain of the level that the gang requires, or all
nodes. In each, units are taken in order of cost; then those units are restored without whose
eviction the gang still fits, there or elsewhere, so that no pod is evicted unnecessarily.

Taking the cheapest units may exhaust the entitlement to a unit that is needed. Where this fails
although the gang would fit without all possible units, sets of units are tried: all sets where
units are few, else all units are taken and restored until the gang is entitled to the rest.

A gang that would exceed a limit of its queue evicts there, too: the cheapest units charged to the
queue with the limit are taken first, on any node.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Flags, Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.placement.placer import Placer, single_unconstrained_pod
from kilonova.scheduler.core.preemption.candidate_domains import iter_candidate_domains
from kilonova.scheduler.core.preemption.entitlement import Entitlement, EvictionUnit, UnitCost
from kilonova.scheduler.core.preemption.trial import PreemptionTrial, ReleasedUnit
from kilonova.scheduler.core.preemption.victim_candidates import VictimCandidates

_MAX_SINGLE_UNITS = 32
_MAX_DOMAINS = 16
"""Number of domains compared."""
_MAX_DOMAINS_SCANNED = 4096
"""Number of domains scanned for potential victims."""
_MAX_SETS_TRIED = 64
"""Number of sets of units tried."""
_MAX_UNITS_EXHAUSTIVE = 10
"""Up to this number of units all sets are compared."""
_MAX_UNITS_IN_SETS = 64
"""With more units no sets are tried."""

_EvictionCost = tuple[int, float, int, tuple[str, ...]]
"""Highest priority evicted, lost GPU-seconds, number of pods, and their gangs."""


@dataclass(frozen=True, slots=True)
class PlacementCandidate:
    """A feasible placement of the preemptor, and the victims it requires."""

    placements: tuple[PodPlacement, ...]
    victims: tuple[EvictionUnit, ...] = ()


class VictimSelector:
    """Frees capacity in a cluster, one gang at a time."""

    def __init__(
        self,
        cluster: Cluster,
        feasibility: FeasibilityCache,
        placer: Placer,
        now: float,
        just_placed: Collection[str] = (),
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._feasibility = feasibility
        self._placer = placer
        self.candidates = VictimCandidates(cluster, now, just_placed)

    def place_by_preemption(
        self, gang: Gang, *, enforce_limits: bool = True
    ) -> PlacementCandidate | None:
        """Places a gang by evicting others, whose pods are removed from the snapshot; returns None,
        and changes nothing, if it is not entitled to enough. Surplus pods evict none. Queue limits
        apply if `enforce_limits` is set."""
        entitlement = self.candidates.entitlement_of(
            gang.only_required_members(), enforce_limits=enforce_limits
        )
        if not entitlement.source_queues:
            return None
        candidate = self._replace_one_unit(entitlement)
        if candidate is not None:
            return candidate
        candidate = self._find_cheapest_domain(entitlement)
        if candidate is not None:
            self._snapshot.remove_pods([pod for unit in candidate.victims for pod in unit.pods])
            self._snapshot.add_pods(candidate.placements)
        return candidate

    def _replace_one_unit(self, entitlement: Entitlement) -> PlacementCandidate | None:
        """Places a single pod by evicting one unit."""
        member = single_unconstrained_pod(entitlement.gang)
        if member is None:
            return None
        fits = self._feasibility.rejection_reasons(member.shape)
        for unit in islice(self.candidates.iter_sufficient_units(entitlement), _MAX_SINGLE_UNITS):
            rows = {self._snapshot.placements[pod].row for pod in unit.pods}
            if not entitlement.exceeded_limits and all(
                fits[row] != FilterReason.FITS for row in rows
            ):
                continue
            there = None if entitlement.exceeded_limits else np.array(sorted(rows), np.intp)
            trial = self._snapshot.begin_trial()
            self._snapshot.remove_pods(unit.pods)
            placements = self._placer.place(entitlement.gang, there)
            if placements is not None and entitlement.is_within_limits_without(unit, placements):
                self._snapshot.end_trial(trial)
                return PlacementCandidate(tuple(placements), (unit,))
            self._snapshot.rollback(trial)
        return None

    def _find_cheapest_domain(self, entitlement: Entitlement) -> PlacementCandidate | None:
        useful = self._find_useful_rows(entitlement.gang)
        domains = list(islice(self._iter_domains(entitlement), _MAX_DOMAINS))
        for search in (self._select_greedily, self._select_by_sets):
            found: list[PlacementCandidate] = []
            for rows in domains:
                trial = self._snapshot.begin_trial()
                candidate = search(entitlement.without_taken_units(), rows, useful)
                self._snapshot.rollback(trial)
                if candidate is not None:
                    found.append(candidate)
            if found:
                return min(found, key=lambda candidate: _eviction_cost(candidate.victims))
        return None

    def _iter_domains(self, entitlement: Entitlement) -> Iterator[Rows]:
        """Domains with potential victims, or all where pods on other nodes may be in the way,
        too."""
        anywhere = bool(entitlement.exceeded_limits) or self._depends_on_other_nodes(
            entitlement.gang
        )
        domains = iter_candidate_domains(self._snapshot, self._feasibility, entitlement.gang)
        for rows in islice(domains, _MAX_DOMAINS_SCANNED):
            if anywhere or self.candidates.has_candidates_on(entitlement, rows):
                yield rows

    def _find_useful_rows(self, gang: Gang) -> Flags | None:
        """Rows feasible for pods of the gang; None if pods on other nodes may be in the way."""
        if self._depends_on_other_nodes(gang):
            return None
        useful = np.zeros(self._snapshot.size, np.bool_)
        for shape in {each.shape for group in gang.groups for each in group.members}:
            useful |= self._feasibility.rejection_reasons(shape) == FilterReason.FITS
        return useful

    def _depends_on_other_nodes(self, gang: Gang) -> bool:
        """Whether pods on other nodes may make a pod of the gang infeasible: by affinity rules, or
        by devices that several nodes can reach."""
        pod_counts = self._snapshot.pod_counts
        return any(
            member.shape.pod_rules is not None
            or bool(member.shape.claims)
            or (pod_counts.has_anti_affinity and bool(pod_counts.anti_affinity_against(member)))
            for group in gang.groups
            for member in group.members
        )

    # Greedy selection

    def _select_greedily(
        self, entitlement: Entitlement, rows: Rows, useful_rows: Flags | None
    ) -> PlacementCandidate | None:
        """Evicts units that keep the gang above a limit, then units in these rows, more and more of
        them, until the gang fits there."""
        taken = self._release_units(self.candidates.take_units_over_limit(entitlement))
        placements = (
            self._placer.place(entitlement.gang, rows)
            if taken and not entitlement.exceeded_limits
            else None
        )
        units = self.candidates.take_units(entitlement, self._search_rows(rows), useful_rows)
        step = 1
        while placements is None:
            more = self._release_units(islice(units, step))
            if entitlement.exceeded_limits or not more:
                return None
            taken += more
            placements = self._placer.place(entitlement.gang, rows)
            step = 2 * step
        if not entitlement.is_within_limits(placements) or not entitlement.is_entitled_to(
            [unit for unit, _ in taken]
        ):
            return None
        return self._spare_unneeded_units(
            entitlement, taken, self._begin_trial(entitlement, placements, useful_rows)
        )

    def _spare_unneeded_units(
        self, entitlement: Entitlement, taken: Sequence[ReleasedUnit], trial: PreemptionTrial
    ) -> PlacementCandidate:
        """Restores units that are not needed, the most expensive first; a whole gang or nothing. A
        unit may be needed only for the entitlement to another that is restored, too: repeated until
        nothing changes."""
        running_gangs = self._cluster.running_gangs
        queues = Counter(running_gangs[unit.gang].gang.queue for unit, _ in taken)
        left = sorted(taken, key=lambda released: released[0].cost, reverse=True)
        again = True
        while again:
            again, held = False, False
            kept: list[ReleasedUnit] = []
            whole: set[str] = set()
            for unit, released in left:
                if unit.gang in whole:
                    continue
                queue = running_gangs[unit.gang].gang.queue
                others = [each for each, count in queues.items() if count > (each == queue)]
                if not entitlement.try_return(
                    unit, [placement.pod for placement in released], others
                ):
                    held = True
                elif trial.try_restore(released, entitlement.is_within_limits):
                    queues[queue] -= 1
                    again = True
                    continue
                else:
                    entitlement.take(unit)
                kept.append((unit, released))
                if unit.is_whole_gang:
                    whole.add(unit.gang)
            left, again = kept, again and held
        return PlacementCandidate(tuple(trial.placements), tuple(unit for unit, _ in left))

    # Sets of units

    def _select_by_sets(
        self, entitlement: Entitlement, rows: Rows, useful_rows: Flags | None
    ) -> PlacementCandidate | None:
        """Tries sets of units that might be evicted together, if the gang fits without all of
        them."""
        possible = self.candidates.iter_possible_units(
            entitlement, self._search_rows(rows), useful_rows
        )
        units = list(islice(possible, _MAX_UNITS_IN_SETS + 1))
        if entitlement.has_helpful_units_elsewhere:
            known = {unit.pods for unit in units}
            elsewhere = islice(
                self.candidates.iter_possible_units(entitlement, None, useful_rows),
                _MAX_UNITS_IN_SETS,
            )
            units += [
                unit
                for unit in elsewhere
                if unit.pods not in known and entitlement.is_helped_by(unit)
            ]
        if not units or len(units) > _MAX_UNITS_IN_SETS:
            return None
        if self._place_without(units, entitlement.gang, rows) is None:
            return None
        if len(units) <= _MAX_UNITS_EXHAUSTIVE:
            return self._select_cheapest_set(entitlement, units, rows)
        return self._reduce_to_entitled(entitlement, units, rows, useful_rows)

    def _select_cheapest_set(
        self, entitlement: Entitlement, units: Sequence[EvictionUnit], rows: Rows
    ) -> PlacementCandidate | None:
        sets = chain.from_iterable(combinations(units, count) for count in _set_sizes(units))
        permitted = [
            each for each in sets if not _has_overlap(each) and entitlement.is_entitled_to(each)
        ]
        for chosen in islice(sorted(permitted, key=_eviction_cost), _MAX_SETS_TRIED):
            placements = self._place_without(chosen, entitlement.gang, rows)
            if placements is not None and entitlement.is_entitled_to(chosen, placements):
                return PlacementCandidate(tuple(placements), chosen)
        return None

    def _reduce_to_entitled(
        self,
        entitlement: Entitlement,
        units: Sequence[EvictionUnit],
        rows: Rows,
        useful_rows: Flags | None,
    ) -> PlacementCandidate | None:
        """Evicts all units and restores those not needed, the most expensive first, until the gang
        is entitled to the rest."""
        left = self._release_units(units)
        placements = self._placer.place(entitlement.gang, rows)
        assert placements is not None
        trial = self._begin_trial(entitlement, placements, useful_rows)
        for released in sorted(left, key=lambda released: released[0].cost, reverse=True):
            if trial.try_restore(released[1]):
                left.remove(released)
                if entitlement.is_entitled_to([unit for unit, _ in left], trial.placements):
                    for unit, _ in left:
                        entitlement.take(unit)
                    return self._spare_unneeded_units(entitlement, left, trial)
        return None

    def _search_rows(self, rows: Rows) -> Rows | None:
        """Rows on which units are searched; None for all."""
        return None if len(rows) == int(self._snapshot.alive.sum()) else rows

    def _release_units(self, units: Iterable[EvictionUnit]) -> list[ReleasedUnit]:
        """Removes the pods of units from the snapshot."""
        placements = self._snapshot.placements
        return [
            (unit, self._snapshot.remove_pods([pod for pod in unit.pods if pod in placements]))
            for unit in units
        ]

    def _place_without(
        self, units: Iterable[EvictionUnit], gang: Gang, rows: Rows | None
    ) -> list[PodPlacement] | None:
        """The placement of a gang if units were evicted; nothing changes."""
        trial = self._snapshot.begin_trial()
        self._release_units(units)
        placements = self._placer.place(gang, rows)
        self._snapshot.rollback(trial)
        return placements

    def _begin_trial(
        self,
        entitlement: Entitlement,
        placements: Sequence[PodPlacement],
        useful_rows: Flags | None,
    ) -> PreemptionTrial:
        return PreemptionTrial(
            self._snapshot, self._placer, entitlement.gang, placements, useful_rows
        )


def _set_sizes(units: Sequence[EvictionUnit]) -> range:
    return range(1, len(units) + 1)


def _has_overlap(units: Collection[EvictionUnit]) -> bool:
    """Whether a pod is in several units."""
    whole = {unit.gang for unit in units if unit.is_whole_gang}
    return any(not unit.is_whole_gang and unit.gang in whole for unit in units)


def _eviction_cost(units: Sequence[EvictionUnit]) -> _EvictionCost:
    costs: list[UnitCost] = [unit.cost for unit in units]
    return (
        max((cost[0] for cost in costs), default=0),
        sum(cost[2] for cost in costs),
        sum(len(unit.pods) for unit in units),
        tuple(sorted(unit.gang for unit in units)),
    )
