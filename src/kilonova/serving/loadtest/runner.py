"""Sends the load of a plan, and records what happens.

All runs in one event loop. In a closed loop there is a task per client; in an open loop one task
waits for the next arrival and starts a task for it. A run ends at the end of its profile or trace,
after its number of requests, or when `stop` is set; requests that are under way are waited for, up
to the time limit of a request.

In an open loop the latency of a request counts from when it was due; if it was sent only as late as
timers are (`TIMER_SECONDS`), from when it was sent.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kilonova.serving.loadtest.arrivals import iterate_arrivals
from kilonova.serving.loadtest.outcome import TIMEOUT, Outcome, RequestSize, Target
from kilonova.serving.loadtest.profile import LoadProfile
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.trace import TraceRequest

LoadKind = Literal["closed", "constant", "poisson", "trace"]

TIMER_SECONDS = 0.002
"""How late a timer may be on an idle machine."""
LATE_SECONDS = 0.01
"""A request that is sent later than this is late."""
_RAMP_SECONDS = 0.1
"""How often the number of clients is adjusted during a ramp."""
_FAILURE_PAUSE_SECONDS = 0.05
"""A client of a closed loop waits so long after a request that failed at once: where nothing
listens, it would otherwise do nothing but fail."""
DEFAULT_MAX_IN_FLIGHT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What is sent."""

    kind: LoadKind
    profile: LoadProfile | None = None
    """Clients (closed loop), or requests per second; None for a trace."""
    trace: tuple[TraceRequest, ...] = ()
    max_requests: int | None = None
    timeout: float = 60.0
    """Seconds that a request may take."""
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT
    """Of an open loop: further requests wait, and their latency counts."""
    seed: int = 0

    @property
    def seconds(self) -> float:
        """How long the profile or trace is."""
        if self.profile is not None:
            return self.profile.seconds
        return self.trace[-1].at if self.trace else 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests arrive whatever the answers are."""
        return self.kind != "closed"


@dataclass(slots=True)
class RunProgress:
    """What is known while a run goes on. Times are those of the loop's clock."""

    started_at: float = 0.0
    ended_at: float = 0.0
    """When no further requests were sent."""
    in_flight: int = 0
    max_late: float = 0.0
    """How late a request was sent at most, in an open loop."""
    late_requests: int = 0
    """Requests that were sent more than `LATE_SECONDS` late."""
    stopped_early: bool = field(default=False)
    """Whether it ended before its plan did."""


class LoadRun:
    """One run of a plan."""

    def __init__(self, target: Target, plan: LoadPlan, recorder: Recorder) -> None:
        self.progress = RunProgress()
        self._target = target
        self._plan = plan
        self._recorder = recorder
        self._requests = 0
        self._end = asyncio.Event()

    def stop(self) -> None:
        """Send no further requests."""
        if not self._end.is_set():
            self.progress.stopped_early = True
            self._end.set()

    async def run(self) -> None:
        """Send all, and wait for the answers."""
        loop = asyncio.get_running_loop()
        self.progress.started_at = loop.time()
        async with asyncio.TaskGroup() as tasks:
            if self._plan.is_open:
                await self._run_open(tasks)
            else:
                await self._run_closed(tasks)
            self.progress.ended_at = loop.time()
            self._end.set()

    async def _run_open(self, tasks: asyncio.TaskGroup) -> None:
        clock = asyncio.get_running_loop().time
        origin = self.progress.started_at
        slots = asyncio.Semaphore(self._plan.max_in_flight)
        for at, size in self._iterate_requests():
            due = origin + at
            if due > clock():
                await self._wait_until(due)
            else:
                await asyncio.sleep(0)  # answers are read, however far the generator is behind
            if not slots.locked():
                await slots.acquire()
            elif not await self._acquire(slots):
                return
            if self._end.is_set() or not self._take_request():
                slots.release()
                return
            sent = clock()
            late = sent - due
            self.progress.max_late = max(self.progress.max_late, late)
            self.progress.late_requests += late > LATE_SECONDS
            start = sent if late <= TIMER_SECONDS else due
            tasks.create_task(self._send_and_release(slots, start, size))
        if self._plan.profile is not None:
            await self._wait_until(origin + self._plan.seconds)

    def _iterate_requests(self) -> Iterator[tuple[float, RequestSize | None]]:
        plan = self._plan
        if plan.kind == "constant" or plan.kind == "poisson":
            assert plan.profile is not None
            randomness = random.Random(plan.seed)  # noqa: S311 - repeatable, no secret
            for at in iterate_arrivals(plan.profile, plan.kind, randomness):
                yield at, None
        else:
            for each in plan.trace:
                yield each.at, each.size

    async def _acquire(self, slots: asyncio.Semaphore) -> bool:
        """Wait for a slot; False if the run ends before there is one."""
        acquired = asyncio.ensure_future(slots.acquire())
        ended = asyncio.ensure_future(self._end.wait())
        await asyncio.wait({acquired, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if acquired.done():
            return True
        acquired.cancel()
        return False

    async def _send_and_release(
        self, slots: asyncio.Semaphore, start: float, size: RequestSize | None
    ) -> None:
        try:
            await self._send(start, size)
        finally:
            slots.release()

    async def _run_closed(self, tasks: asyncio.TaskGroup) -> None:
        clients = _Clients()
        for at, level in self._iterate_levels():
            await self._wait_until(self.progress.started_at + at)
            if self._end.is_set():
                return
            clients.wanted = level
            for index in range(level):
                if index not in clients.running:
                    clients.running.add(index)
                    tasks.create_task(self._run_client(clients, index))
        await self._wait_until(self.progress.started_at + self._plan.seconds)

    def _iterate_levels(self) -> Iterator[tuple[float, int]]:
        """When the number of clients changes, and to what."""
        profile = self._plan.profile
        assert profile is not None
        for begins, phase in profile.iterate_starts():
            if not phase.is_ramp:
                yield begins, round(phase.start)
                continue
            steps = max(1, round(phase.seconds / _RAMP_SECONDS))
            for step in range(steps):
                at = begins + phase.seconds * step / steps
                yield at, round(profile.level_at(at))

    async def _run_client(self, clients: "_Clients", index: int) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while not self._end.is_set() and index < clients.wanted and self._take_request():
                sent = clock()
                is_ok = await self._send(sent, None)
                if not is_ok and clock() - sent < _FAILURE_PAUSE_SECONDS:
                    await self._wait_until(sent + _FAILURE_PAUSE_SECONDS)
        finally:
            clients.running.discard(index)

    def _take_request(self) -> bool:
        """Whether another request may be sent; the last one ends the run."""
        limit = self._plan.max_requests
        if self._recorder.is_full or (limit is not None and self._requests >= limit):
            self._end.set()
            return False
        self._requests += 1
        return True

    async def _send(self, start: float, size: RequestSize | None) -> bool:
        clock = asyncio.get_running_loop().time
        sent = clock()
        self.progress.in_flight += 1
        try:
            async with asyncio.timeout(self._plan.timeout):
                outcome = await self._target.send(size)
        except TimeoutError:
            message = f"no answer within {self._plan.timeout:g} s"
            outcome = Outcome(TIMEOUT, False, message)
        finally:
            self.progress.in_flight -= 1
        self._recorder.add(start, sent, clock(), outcome, self.progress.started_at)
        return outcome.is_ok

    async def _wait_until(self, moment: float) -> None:
        """Return at a time, or when the run ends."""
        seconds = moment - asyncio.get_running_loop().time()
        if seconds > 0 and not self._end.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._end.wait()
            except TimeoutError:
                pass


@dataclass(slots=True)
class _Clients:
    wanted: int = 0
    running: set[int] = field(default_factory=set[int])
