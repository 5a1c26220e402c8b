"""The right to write, and the fence that ends it: a deposed leader writes nothing.

A leader may be wrong about being one: its loop was blocked, the API was away, its machine
slept. So the right to write has an end by the local clock, set when a renewal was *sent*:
`renew_deadline` after it no write begins, and at `lease_duration`, when another may take the
Lease, writes still under way are cut off. What a server does with a request that it has
already read cannot be fenced here; the time between the two is for those.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from kilonova.kube.election.lease import Timing
from kilonova.kube.errors import KubeError
from kilonova.kube.transport import Reply, Request, StreamReply, Transport

Clock = Callable[[], float]
"""Seconds that only go forward."""

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def boot_clock() -> float:
    """Seconds since boot, those of suspend included: a leader that slept has lost its Lease.

    Not the event loop's clock, which uvloop reads once per turn: after a long computation in
    one callback it would still show the time before it.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(eq=False)
class LeadershipLost(KubeError):
    """We do not, or no longer, lead: nothing may be written."""

    lease: str
    why: str

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"leadership of {self.lease} is lost: {self.why}"


class Leadership:
    """One term as leader. Ends once, and never comes back: a new term is a new object.

    `token` grows from term to term; what is written elsewhere can carry it, so that a later
    reader can tell an old leader's words from a new one's.
    """

    def __init__(self, lease: str, token: int, sent: float, timing: Timing, clock: Clock) -> None:
        self.lease = lease
        self.token = token
        self._timing = timing
        self._clock = clock
        self._valid_until = sent + timing.renew_deadline
        self._expires = sent + timing.lease_duration
        self._why = ""
        self._under_way: set[asyncio.Timeout] = set()

    def is_valid(self) -> bool:
        """Whether a write may begin now. Cheap (a clock read), and safe in any thread."""
        return not self._why and self._clock() < self._valid_until

    def check(self) -> None:
        """Raise LeadershipLost unless a write may begin now."""
        if not self.is_valid():
            raise LeadershipLost(self.lease, self._why or "it was not renewed in time")

    def remaining(self) -> float:
        """Seconds until the end, if no renewal comes; never negative."""
        return max(0.0, self._valid_until - self._clock()) if not self._why else 0.0

    def extend(self, sent: float) -> None:
        """A renewal that was sent at this time succeeded. Too late is too late: it raises."""
        self.check()
        self._valid_until = sent + self._timing.renew_deadline
        self._expires = sent + self._timing.lease_duration
        for timeout in self._under_way:
            timeout.reschedule(self._cut_off_time())

    def end(self, why: str) -> None:
        """Let no write begin from now on."""
        self._why = self._why or why

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncGenerator[None]:
        """Around one write: checks first, and cuts it off when another may lead."""
        self.check()
        timeout = asyncio.timeout_at(self._cut_off_time())
        try:
            async with timeout:
                self._under_way.add(timeout)
                try:
                    yield
                finally:
                    self._under_way.discard(timeout)
        except TimeoutError:
            if not timeout.expired():
                raise
            why = "a write was still under way when the lease expired"
            raise LeadershipLost(self.lease, why) from None

    def _cut_off_time(self) -> float:
        return asyncio.get_running_loop().time() + self._expires - self._clock()


class FencedTransport:
    """A transport on which only a valid leader's writes pass; reads always do.

    `current` gives the leadership of the moment (`lambda: elector.leadership`), None when
    there is none.
    """

    def __init__(self, inner: Transport, current: Callable[[], Leadership | None]) -> None:
        self._inner = inner
        self._current = current

    async def send(self, request: Request) -> Reply:
        if request.method in _READS:
            return await self._inner.send(request)
        async with self._leadership(request).write():
            return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        if request.method not in _READS:
            self._leadership(request).check()
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def _leadership(self, request: Request) -> Leadership:
        leadership = self._current()
        if leadership is None:
            raise LeadershipLost("no lease", f"{request.method} {request.path} before leading")
        return leadership
