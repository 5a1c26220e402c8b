"""The scheduling loop: after every relevant event, schedule the gangs that are due.

A cycle schedules one gang after the other and yields to the event loop in between, so that
informers continue and bindings are written meanwhile. Unschedulable gangs are not retried before an
event may have freed capacity, or the retry interval has passed: the right to preempt can arise with
time.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

from kilonova.kube import Backoff
from kilonova.kube.wait.cooperative_yield import CooperativeYield
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.consolidation.migrator import PodMigrator
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.decisions import UnschedulableGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import SchedulingCycle
from kilonova.scheduler.cycle.leader_takeover import LeaderTakeover
from kilonova.scheduler.cycle.node_batch import NodeEventBatcher
from kilonova.scheduler.cycle.results import PlacementDispatcher, RejectionRecorder
from kilonova.scheduler.eviction.nominations import restore_nominated_gangs
from kilonova.scheduler.status.results import rejection_reason

_FAILURE_BACKOFF = Backoff(1.0, 60.0)
"""After cycles that failed as a whole."""


class SchedulingLoop:
    """A runnable that runs a scheduling cycle whenever `wakeup` is set."""

    name = "scheduler"

    def __init__(
        self,
        context: SchedulerContext,
        caches: CacheSubsystem,
        planner: Planner,
        dispatcher: PlacementDispatcher,
        rejections: RejectionRecorder,
        takeover: LeaderTakeover,
        migrator: PodMigrator,
    ) -> None:
        """`migrator` places recreated gangs on the capacity held for them."""
        settings = context.settings
        self._cache = caches.scheduler_cache
        self._backoff = caches.backoff
        self._fit = caches.fit
        self._planner = planner
        self._dispatcher = dispatcher
        self._rejections = rejections
        self._takeover = takeover
        self._migrator = migrator
        self._now = context.now
        self._retry_interval = settings.retry_interval
        self._node_batch = NodeEventBatcher(settings.node_batch_window, context.wakeup.set)
        self._errors = context.errors
        self._wakeup = context.wakeup
        self._metrics = context.metrics
        self._rejected: dict[str, tuple[Gang, int, float]] = {}
        """Unschedulable gangs, the number of capacity events before the attempt, and its time."""
        self._reserved_gang = ""
        """The gang of the backfill reservation: gangs behind it must not delay it."""
        self._reasons: dict[str, str] = {}
        """Why gangs were unschedulable in their last attempt."""

    async def run(self) -> None:
        """Schedule forever; first the gangs nominated by a previous leader."""
        await self._takeover.run()
        try:
            self._cache.refresh()
            await self._schedule_gangs(restore_nominated_gangs(self._cache))
        except Exception as error:
            self._errors.report("cycle", "", error)
            self._cache.resync_running_gangs()
        self._wakeup.set()
        failures = 0
        while True:
            await self._wait_for_wakeup()
            try:
                await self._run_cycle()
                failures = 0
            except Exception as error:
                failures += 1
                self._errors.report("cycle", "", error)
                self._cache.resync_running_gangs()
                await asyncio.sleep(_FAILURE_BACKOFF.delay(failures))
                self._wakeup.set()

    async def _run_cycle(self) -> None:
        """Run one scheduling cycle. If it fails as a whole, gangs are scheduled one by one, so that
        only the faulty one loses its attempt."""
        self._cache.refresh()
        self._rejections.record_not_ready(self._cache.reported_not_ready)
        for placement in self._migrator.place_replacements():
            self._cache.assume(placement)
            self._dispatcher.dispatch(placement)
        pending = list(self._cache.waiting.values())
        try:
            await self._schedule_gangs(pending)
        except Exception as error:
            self._errors.report("cycle", "", error)
            self._cache.resync_running_gangs()
            for gang in pending:
                try:
                    await self._schedule_gangs([gang])
                except Exception as gang_error:
                    self._rejections.record_rejections(
                        [self._record_failure(gang, gang_error)], None
                    )

    def pending_reasons(self) -> Iterator[str]:
        """The reason of each pending gang."""
        self._reasons = {
            name: reason for name, reason in self._reasons.items() if name in self._cache.waiting
        }
        for name in self._cache.waiting:
            yield self._reasons.get(name, "NotYetAttempted")
        for why in self._cache.not_ready.values():
            yield why.reason

    async def _wait_for_wakeup(self) -> None:
        """Wait for the next event, or for the retry interval if gangs are unschedulable."""
        try:
            async with asyncio.timeout(self._retry_interval if self._rejected else None):
                await self._wakeup.wait()
        except TimeoutError:
            self._rejected.clear()
        self._wakeup.clear()

    async def _schedule_gangs(self, gangs: Sequence[Gang]) -> None:
        cache, cooperative_yield, now = self._cache, CooperativeYield(), self._now().timestamp()
        failed: list[UnschedulableGang] = []
        delay_surplus = self._node_batch.is_delaying(
            cache.capacity_events.node_count, any(gang.needed for gang in cache.waiting.values())
        )
        due = [
            gang for gang in gangs if (gang.needed or not delay_surplus) and self._is_due(gang, now)
        ]
        self._rejected = {
            name: attempt
            for name, attempt in self._rejected.items()
            if cache.waiting.get(name) is attempt[0]
        }
        if not due:
            return
        reserved_gang = cache.waiting.get(self._reserved_gang)
        if (
            reserved_gang is not None
            and reserved_gang.name in self._rejected
            and not self._is_due(reserved_gang, now)
        ):
            due.append(reserved_gang)
        start = time.perf_counter()
        self._fit.learn(cache.cluster.snapshot)
        cycle = self._planner.begin_cycle(due, now)
        capacity_events = cache.capacity_events.count
        for gang in cycle.gangs_in_order:
            if cache.waiting.get(gang.name) is gang:
                gang_start = time.perf_counter()
                try:
                    placed = self._schedule_gang(cycle, gang)
                except Exception as error:
                    placed = False
                    failed.append(self._record_failure(gang, error))
                self._metrics.observe_decision(placed, time.perf_counter() - gang_start)
            await cooperative_yield.yield_if_due()
        for rejection in cycle.unschedulable:
            name = rejection.gang.name
            self._rejected[name] = cache.waiting.get(name, rejection.gang), capacity_events, now
            self._reasons[name] = rejection_reason(rejection.reason)
        self._reserved_gang = (
            cycle.backfill_reservation.gang.name if cycle.backfill_reservation is not None else ""
        )
        self._metrics.observe_cycle(time.perf_counter() - start)
        self._rejections.record_rejections(
            [*cycle.unschedulable, *failed], cycle.backfill_reservation
        )

    def _schedule_gang(self, cycle: SchedulingCycle, gang: Gang) -> bool:
        """Schedule one gang; whether it was placed."""
        outcome = cycle.schedule_gang(gang)
        if isinstance(outcome, UnschedulableGang):
            return False
        try:
            self._cache.assume(outcome)
            self._dispatcher.dispatch(outcome)
        except Exception:
            self._cache.revoke(outcome)
            raise
        return True

    def _record_failure(self, gang: Gang, error: Exception) -> UnschedulableGang:
        """Put a gang into backoff after an unexpected error."""
        rejection = UnschedulableGang(gang, self._errors.report("decision", gang.name, error))
        self._backoff.record_failure(gang.name)
        self._reasons[gang.name] = rejection_reason(rejection.reason)
        self._cache.resync_running_gangs()
        return rejection

    def _is_due(self, gang: Gang, now: float) -> bool:
        if gang.name in self._backoff:
            return False
        attempt = self._rejected.get(gang.name)
        if attempt is None:
            return True
        attempted_gang, capacity_events, at = attempt
        return (
            attempted_gang != gang
            or capacity_events != self._cache.capacity_events.count
            or now - at >= self._retry_interval
        )
