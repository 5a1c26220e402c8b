"""One scheduling cycle: pending gangs are tried one by one, in the order of their queues.

A placement counts at once, for the queue and on the nodes, before the next gang is tried. A gang
that is not placed leaves the cluster unchanged.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from kilonova.scheduler.core.backfill.reserved_capacity import (
    OpenReservation,
    place_on_previous_nodes,
)
from kilonova.scheduler.core.backfill.shadow import (
    BackfillReservation,
    ShadowCluster,
    reserve_capacity,
)
from kilonova.scheduler.core.decisions import GangPlacement, InsufficientCapacity, UnschedulableGang
from kilonova.scheduler.core.equivalence import equivalence_key
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang, gang_charges
from kilonova.scheduler.core.model.gang_validation import validate_gang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.placement.placer import Placer, search_budget_for
from kilonova.scheduler.core.preemption.victim_candidates import EvictionUnit
from kilonova.scheduler.core.preemption.victim_selection import PlacementCandidate, VictimSelector
from kilonova.scheduler.core.queueing.fair_shares import compute_fair_shares
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.scheduling_queue import SchedulingQueue


@dataclass(frozen=True, slots=True)
class PlannerPolicy:
    """Scheduling policy, beside what gangs and queues specify."""

    levels: tuple[str, ...] = ()
    """Topology levels, broadest first."""
    preemption_enabled: bool = True
    reserve_after: float = 300.0
    """Seconds after which capacity is held back for a pending gang (backfill)."""


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """What is known of an unsuccessful attempt to place an equivalent gang."""

    covers_backfill: bool = False
    """Whether it also holds for gangs that end before a backfill reservation starts."""
    search_exceeded: bool = False


class SchedulingCycle:
    """One pass over pending gangs. Between two gangs the cluster may change."""

    def __init__(
        self,
        cluster: Cluster,
        feasibility: FeasibilityCache,
        placer: Placer,
        policy: PlannerPolicy,
        gangs: Iterable[Gang],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._feasibility = feasibility
        self._placer = placer.with_budget(search_budget_for(None))
        self._policy = policy
        self._now = now
        self._victim_selector: VictimSelector | None = None
        self._shadow: ShadowCluster | None = None
        self._reserved_capacity: OpenReservation | None = None
        self.placements: list[GangPlacement] = []
        self.unschedulable: list[UnschedulableGang] = []
        self._placed_this_cycle: set[str] = set()
        self._evicted: list[tuple[RunningGang, EvictionUnit]] = []
        """Units evicted for the gang being scheduled, with the running gangs they belong to."""
        self._failed_attempts: dict[Hashable, _FailedAttempt] = {}
        """Unsuccessful attempts of this cycle by equivalence key and whether a queue limit was
        exceeded. Placements made since cannot make an equivalent gang feasible."""
        self._complete_gangs: list[Gang] = []
        """Gangs that have their minimum; only surplus pods are pending."""
        self._node_generation = cluster.snapshot.node_generation
        self._queue = self._build_queue(list(gangs))

    @property
    def gangs_in_order(self) -> Iterator[Gang]:
        """Gangs in scheduling order; gangs that have their minimum come last."""
        yield from self._queue
        for gang in self._complete_gangs:
            self._queue.add(gang)
        yield from self._queue

    @property
    def backfill_reservation(self) -> BackfillReservation | None:
        return self._shadow.reservation if self._shadow is not None else None

    def _build_queue(self, pending: list[Gang]) -> SchedulingQueue[Gang]:
        """Gangs whose queue is invalid are unschedulable at once."""
        cluster = self._cluster
        requested = cluster.used.copy()
        for gang in pending:
            requested.charge(gang.queue, gang_charges(gang, include_surplus=True))
        shares = compute_fair_shares(cluster.capacity(), requested)
        queue: SchedulingQueue[Gang] = SchedulingQueue(
            cluster.used, shares, cluster.history.mean_share_ratios(shares)
        )
        for gang in pending:
            problem = cluster.forest.admission_problem(gang.queue)
            if problem is not None:
                self.unschedulable.append(UnschedulableGang(gang, problem))
            elif gang.needed:
                queue.add(gang)
            else:
                self._complete_gangs.append(gang)
        return queue

    def schedule_gang(self, gang: Gang) -> GangPlacement | UnschedulableGang:
        """Places one gang, or returns why not. An error rolls back its changes, and the cycle can
        go on with the next gang."""
        self._handle_node_changes()
        self._renew_budgets(gang)
        self._evicted.clear()
        if gang.reservation in self._cluster.running_gangs:
            self._reserved_capacity = OpenReservation(self._cluster, gang.reservation, self._queue)
        trial = self._cluster.snapshot.begin_trial()
        try:
            outcome = self._schedule(self._cluster.with_gangs_to_avoid(gang))
        except BaseException:
            self._cluster.snapshot.rollback(trial)
            self._close_reserved_capacity(())
            self._restore_victims()
            raise
        if isinstance(outcome, GangPlacement):
            self._cluster.snapshot.end_trial(trial)
            self._close_reserved_capacity(outcome.pods)
            self.placements.append(outcome)
            self._placed_this_cycle.add(outcome.gang.name)
        else:
            self._cluster.snapshot.rollback(trial)  # an unschedulable gang changes nothing
            self._close_reserved_capacity(())
            if self._evicted:
                self._restore_victims()
            self.unschedulable.append(outcome)
        return outcome

    def _renew_budgets(self, gang: Gang) -> None:
        """Each gang has a search budget of its own, and so has the renewal of a reservation between
        two gangs."""
        self._placer.budget = search_budget_for(gang)
        self._cluster.snapshot.claims.renew_budget()

    @property
    def _search_exceeded(self) -> bool:
        budgets = (self._placer.budget, self._cluster.snapshot.claims.budget)
        return any(budget is not None and budget.exceeded for budget in budgets)

    def _handle_node_changes(self) -> None:
        """Nodes that changed since the last gang may fit gangs that did not fit before, and the
        shadow does not have them: it is computed again for the same gang."""
        changes = self._cluster.snapshot.node_generation
        if self._node_generation != changes:
            self._node_generation = changes
            self._invalidate_attempts()

    def _close_reserved_capacity(self, consumers: Iterable[PodPlacement]) -> None:
        if self._reserved_capacity is not None:
            self._reserved_capacity.close(consumers)
            self._reserved_capacity = None

    def _invalidate_attempts(self) -> None:
        """Drops what was computed from an older state, and renews the backfill reservation."""
        self._victim_selector = None
        self._failed_attempts.clear()
        if self._shadow is not None:
            gang = self._cluster.with_gangs_to_avoid(self._shadow.reservation.gang)
            self._renew_budgets(gang)
            self._shadow = reserve_capacity(
                self._cluster, self._feasibility, self._placer, gang, self._now
            )

    def _schedule(self, gang: Gang) -> GangPlacement | UnschedulableGang:
        problem = validate_gang(gang, self._cluster.snapshot.placements)
        if problem is not None:
            return UnschedulableGang(gang, problem)
        exceeded = self._cluster.used.first_exceeded_limit(gang.queue, gang_charges(gang))
        is_unrestricted = self._shadow is None or self._shadow.ends_before(gang, self._now)
        key = self._attempt_key(gang, exceeded) if self._failed_attempts else None
        failed = self._failed_attempts.get(key)
        tried = failed is not None and (failed.covers_backfill or not is_unrestricted)
        candidate = (
            None if tried else (exceeded is None and self._place(gang)) or self._preempt(gang)
        )
        if candidate is None or not candidate.placements:
            key = key or self._attempt_key(gang, exceeded)
            previous = failed or _FailedAttempt()
            failed = _FailedAttempt(
                is_unrestricted or previous.covers_backfill,
                self._search_exceeded or previous.search_exceeded,
            )
            if key is not None:
                self._failed_attempts[key] = failed
            if exceeded is not None:
                return UnschedulableGang(gang, exceeded)
            self._reserve_for_backfill(gang)
            return UnschedulableGang(gang, InsufficientCapacity(failed.search_exceeded))
        for unit in candidate.victims:
            running_gang = self._cluster.running_gangs[unit.gang]
            self._cluster.record_removed(unit.gang, unit.pods, self._queue)
            self._evicted.append((running_gang, unit))
        kept = self._trim_to_limits(gang, list(candidate.placements))
        if not kept:
            required, others = _split_required(gang, candidate.placements)
            counted = self._cluster.queue_charges(required or others[:1])
            return UnschedulableGang(
                gang,
                self._cluster.used.first_exceeded_limit(gang.queue, counted)
                or InsufficientCapacity(),
            )
        if self._victim_selector is not None and candidate.victims:
            self._victim_selector.candidates.charge_disruption_budgets(candidate.victims)
            self._failed_attempts.clear()
        self._cluster.record_placed(gang, kept, self._now, self._queue)
        return GangPlacement(gang, tuple(kept), candidate.victims)

    def _restore_victims(self) -> None:
        """Records the evicted units as placed again, after the rollback restored their placements,
        because the preemptor is not placed. Cached results that assumed the eviction are
        dropped."""
        placements = self._cluster.snapshot.placements
        for running_gang, unit in self._evicted:
            evicted = [placements[pod] for pod in unit.pods]
            self._cluster.record_placed(running_gang.gang, evicted, running_gang.since, self._queue)
        self._evicted.clear()
        self._invalidate_attempts()

    def _attempt_key(self, gang: Gang, exceeded: LimitExceeded | None) -> Hashable | None:
        """Key under which the unsuccessful attempt of an equivalent gang is found."""
        request = equivalence_key(gang, self._cluster.snapshot.pod_counts)
        return None if request is None else (request, exceeded is not None)

    def _place(self, gang: Gang) -> PlacementCandidate | None:
        return self._place_in_reserved_capacity(gang) or self._place_anywhere(gang)

    def _place_in_reserved_capacity(self, gang: Gang) -> PlacementCandidate | None:
        """In the capacity of its Reservation, regardless of other pending gangs; else on the nodes
        of the gang that it replaces."""
        if self._reserved_capacity is not None:
            placements = self._reserved_capacity.place(self._placer, gang)
            if placements is not None and self._shadow is not None:
                self._shadow.try_add(
                    placements, [placement.pod for placement in self._reserved_capacity.reserved]
                )
        elif gang.previous_nodes and self._shadow is None:
            placements = place_on_previous_nodes(self._placer, self._cluster.snapshot, gang)
        else:
            return None
        return None if placements is None else PlacementCandidate(tuple(placements))

    def _place_anywhere(self, gang: Gang) -> PlacementCandidate | None:
        shadow = self._shadow
        if shadow is None or shadow.ends_before(gang, self._now):
            placements = self._placer.place(gang)
            return None if placements is None else PlacementCandidate(tuple(placements))
        trial = self._cluster.snapshot.begin_trial()
        placements = self._placer.restricted_to(shadow.feasibility).place(gang)
        if placements is not None and shadow.try_add(placements):
            self._cluster.snapshot.commit(trial)
            return PlacementCandidate(tuple(placements))
        self._cluster.snapshot.rollback(trial)
        return None

    def _preempt(self, gang: Gang) -> PlacementCandidate | None:
        if not self._policy.preemption_enabled or not gang.preempts or not gang.needed:
            return None
        if self._victim_selector is None:
            self._victim_selector = VictimSelector(
                self._cluster, self._feasibility, self._placer, self._now, self._placed_this_cycle
            )
        trial = self._cluster.snapshot.begin_trial()
        candidate = self._victim_selector.place_by_preemption(gang)
        removed = (
            [pod for unit in candidate.victims for pod in unit.pods]
            if candidate is not None
            else []
        )
        if candidate is None or (
            self._shadow is not None
            and not self._shadow.try_add(list(candidate.placements), removed)
        ):
            self._cluster.snapshot.rollback(trial)
            return None
        self._cluster.snapshot.commit(trial)
        return candidate

    def _reserve_for_backfill(self, gang: Gang) -> None:
        """Holds capacity for the first gang that has waited long enough."""
        waited = self._now - gang.created
        if self._shadow is None and waited >= self._policy.reserve_after:
            self._shadow = reserve_capacity(
                self._cluster, self._feasibility, self._placer, gang, self._now
            )

    def _trim_to_limits(self, gang: Gang, placements: list[PodPlacement]) -> list[PodPlacement]:
        """Removes surplus pods that would exceed a limit of the queue."""
        used, queue = self._cluster.used, gang.queue
        claims = any(placement.shape.claims for placement in placements)
        if not claims and (
            len(placements) == gang.needed
            or used.first_exceeded_limit(queue, gang_charges(gang, include_surplus=True)) is None
        ):
            return placements
        required, others = _split_required(gang, placements)
        claimed: set[str] = set()
        total = self._cluster.queue_charges(required, claimed)
        kept = (
            []
            if required and used.first_exceeded_limit(queue, total) is not None
            else list(required)
        )
        for placement in others if len(kept) == len(required) else ():
            claims_with_it = set(claimed)
            more = total + self._cluster.queue_charges((placement,), claims_with_it)
            if used.first_exceeded_limit(queue, more) is None:
                kept.append(placement)
                total, claimed = more, claims_with_it
        excess = {placement.pod for placement in placements} - {placement.pod for placement in kept}
        self._cluster.snapshot.remove_pods(sorted(excess))
        return [placement for placement in placements if placement.pod not in excess]


def _split_required(
    gang: Gang, placements: Iterable[PodPlacement]
) -> tuple[list[PodPlacement], list[PodPlacement]]:
    """The placements that the gang requires, and its surplus pods."""
    needed = {member.pod for group in gang.groups for member in group.members[: group.needed]}
    required = [placement for placement in placements if placement.pod in needed]
    return required, [placement for placement in placements if placement.pod not in needed]
