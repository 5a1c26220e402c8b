"""The loop: whenever something happened, gangs that could have a place now are decided about.

A round is taken turn by turn, and gives way in between, so that caches go on and bindings are
written while it decides. Gangs that found no place are not tried again before something made room,
or some time has passed: rights to push others out come with time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from kilonova.kube import Backoff
from kilonova.kube.breath import Breath
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement, Planner, Refusal, Reservation, Round
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.nodebatch import NodeBatch
from kilonova.scheduler.nominations import recall_nominated
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.resting import Rests
from kilonova.scheduler.verdicts import reason_of
from kilonova.scheduler.world import World

_PAUSES = Backoff(1.0, 60.0)
"""After cycles that failed as a whole."""


class Teller(Protocol):
    """Who tells people what was decided."""

    def refused(self, refusals: Sequence[Refusal], reservation: Reservation | None) -> None: ...
    def unreadable(self, misread: Mapping[str, NotYet]) -> None: ...


class Rounds:
    """A part: decides while it runs, whenever `woken` is set."""

    name = "scheduler"

    def __init__(
        self,
        world: World,
        planner: Planner,
        bind: Callable[[Placement], None],
        teller: Teller,
        now: Callable[[], datetime],
        woken: asyncio.Event,
        *,
        rests: Rests,
        metrics: SchedulerMetrics,
        retry: float,
        node_batch: float,
        learn: Callable[[], None],
        begin: Callable[[], Awaitable[None]],
        errors: ErrorReporter,
        returned: Callable[[], Iterable[Placement]] = tuple,
    ) -> None:
        """`returned` gives gangs that come back after a move, booked where room was held."""
        self._world = world
        self._planner = planner
        self._bind = bind
        self._teller = teller
        self._now = now
        self._retry = retry
        self._batch = NodeBatch(node_batch, woken.set)
        self._learn = learn
        self._begin = begin
        self._returned = returned
        self._errors = errors
        self._rests = rests
        self._woken = woken
        self._metrics = metrics
        self._refused: dict[str, tuple[Gang, int, float]] = {}
        """Gangs that found no place, how much room had been made until then, and when that was."""
        self._kept = ""
        """The gang for which room is kept: those who come later must leave it alone."""
        self._reasons: dict[str, str] = {}
        """Why gangs found no place when they were tried last."""

    async def run(self) -> None:
        """Decides for ever; first about gangs that were promised room before we began."""
        await self._begin()
        try:
            self._world.refresh()
            await self._take_round(recall_nominated(self._world))
        except Exception as error:
            self._errors.report("cycle", "", error)
            self._world.recount()
        self._woken.set()
        failures = 0
        while True:
            await self._pause()
            try:
                await self._schedule()
                failures = 0
            except Exception as error:
                failures += 1
                self._errors.report("cycle", "", error)
                self._world.recount()
                await asyncio.sleep(_PAUSES.delay(failures))
                self._woken.set()

    async def _schedule(self) -> None:
        """One scheduling cycle. Where it fails as a whole, gangs are decided about one by one, so
        that only the one at fault loses its turn."""
        self._world.refresh()
        self._teller.unreadable(self._world.misread)
        for placement in self._returned():
            self._world.assume(placement)
            self._bind(placement)
        waiting = list(self._world.waiting.values())
        try:
            await self._take_round(waiting)
        except Exception as error:
            self._errors.report("cycle", "", error)
            self._world.recount()
            for gang in waiting:
                try:
                    await self._take_round([gang])
                except Exception as fault:
                    self._teller.refused([self._failed(gang, fault)], None)

    def reasons(self) -> Iterator[str]:
        """Why gangs wait, one word for each."""
        self._reasons = {
            name: reason for name, reason in self._reasons.items() if name in self._world.waiting
        }
        for name in self._world.waiting:
            yield self._reasons.get(name, "Undecided")
        for why in self._world.not_yet.values():
            yield why.reason

    async def _pause(self) -> None:
        """Until something happens; while gangs wait for time to pass, not for ever."""
        try:
            async with asyncio.timeout(self._retry if self._refused else None):
                await self._woken.wait()
        except TimeoutError:
            self._refused.clear()
        self._woken.clear()

    async def _take_round(self, gangs: Sequence[Gang]) -> None:
        world, breath, now = self._world, Breath(), self._now().timestamp()
        failed: list[Refusal] = []
        extras_wait = self._batch.is_open(
            world.node_events, any(gang.needed for gang in world.waiting.values())
        )
        due = [
            gang for gang in gangs if (gang.needed or not extras_wait) and self._is_due(gang, now)
        ]
        self._refused = {
            name: refused
            for name, refused in self._refused.items()
            if world.waiting.get(name) is refused[0]
        }
        if not due:
            return
        kept = world.waiting.get(self._kept)
        if kept is not None and kept.name in self._refused and not self._is_due(kept, now):
            due.append(kept)
        began = time.perf_counter()
        self._learn()
        turn = self._planner.begin(due, now)
        gains = world.gains
        for gang in turn.turns:
            if world.waiting.get(gang.name) is gang:
                since = time.perf_counter()
                try:
                    placed = self._decide(turn, gang)
                except Exception as error:
                    placed = False
                    failed.append(self._failed(gang, error))
                self._metrics.decided(placed, time.perf_counter() - since)
            await breath.take_if_due()
        for refusal in turn.refusals:
            name = refusal.gang.name
            self._refused[name] = world.waiting.get(name, refusal.gang), gains, now
            self._reasons[name] = reason_of(refusal.why)
        self._kept = turn.reservation.gang.name if turn.reservation is not None else ""
        self._metrics.round_taken(time.perf_counter() - began)
        self._teller.refused([*turn.refusals, *failed], turn.reservation)

    def _decide(self, turn: Round, gang: Gang) -> bool:
        """Whether a gang got its place."""
        outcome = turn.take_turn(gang)
        if isinstance(outcome, Refusal):
            return False
        try:
            self._world.assume(outcome)
            self._bind(outcome)
        except Exception:
            self._world.revoke(outcome)
            raise
        return True

    def _failed(self, gang: Gang, error: Exception) -> Refusal:
        """A gang lost its turn to an unexpected error, and is tried again with backoff."""
        refusal = Refusal(gang, self._errors.report("decision", gang.name, error))
        self._rests.failed(gang.name)
        self._reasons[gang.name] = reason_of(refusal.why)
        self._world.recount()
        return refusal

    def _is_due(self, gang: Gang, now: float) -> bool:
        if gang.name in self._rests:
            return False
        refused = self._refused.get(gang.name)
        if refused is None:
            return True
        before, gains, at = refused
        return before != gang or gains != self._world.gains or now - at >= self._retry
