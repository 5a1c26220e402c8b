"""Leadership terms, and the fence that rejects the writes of a deposed leader.

A leader may wrongly believe that it leads: its event loop was blocked, the API was unavailable, its
machine was suspended. So a term has an end by the local clock, counted from the time a renewal was
*sent*: after `renew_deadline` no write starts, and after `lease_duration`, when another candidate
may acquire the lease, writes in flight are cancelled. A request that the server has already read
cannot be fenced here; the time between the two limits is for those.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from kilonova.kube.client.errors import KubeError
from kilonova.kube.client.transport import Reply, Request, StreamReply, Transport
from kilonova.kube.election.lease import LeaderElectionTiming

MonotonicClock = Callable[[], float]
"""Seconds of a monotonic clock."""

_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def boot_clock() -> float:
    """Seconds since boot, including suspend: a leader that was suspended has lost its lease.

    Not the event loop's clock, which uvloop reads once per iteration: after a long computation in
    one callback it would still return the time before it.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(eq=False)
class LeadershipLost(KubeError):
    """This process does not lead, or no longer: it must not write."""

    lease: str
    reason: str

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"leadership of {self.lease} is lost: {self.reason}"


class Leadership:
    """One term as leader. It ends once: a new term is a new object.

    `token` grows from term to term; data written elsewhere can carry it, so that a reader can
    distinguish an old leader's data from a new one's.
    """

    def __init__(
        self,
        lease: str,
        token: int,
        sent: float,
        timing: LeaderElectionTiming,
        clock: MonotonicClock,
    ) -> None:
        self.lease = lease
        self.token = token
        self._timing = timing
        self._clock = clock
        self._valid_until = sent + timing.renew_deadline
        self._expires = sent + timing.lease_duration
        self._end_reason = ""
        self._pending_writes: set[asyncio.Timeout] = set()

    def is_valid(self) -> bool:
        """Whether a write may start now. Cheap (a clock read), and safe in any thread."""
        return not self._end_reason and self._clock() < self._valid_until

    def check(self) -> None:
        """Raise LeadershipLost unless a write may start now."""
        if not self.is_valid():
            raise LeadershipLost(self.lease, self._end_reason or "it was not renewed in time")

    def remaining(self) -> float:
        """Seconds until the end without a further renewal; never negative."""
        return max(0.0, self._valid_until - self._clock()) if not self._end_reason else 0.0

    def extend(self, sent: float) -> None:
        """Record a successful renewal that was sent at this time; raises if the term has ended."""
        self.check()
        self._valid_until = sent + self._timing.renew_deadline
        self._expires = sent + self._timing.lease_duration
        for timeout in self._pending_writes:
            timeout.reschedule(self._write_deadline())

    def end(self, reason: str) -> None:
        """End the term: no write may start from now on."""
        self._end_reason = self._end_reason or reason

    @contextlib.asynccontextmanager
    async def guard_write(self) -> AsyncGenerator[None]:
        """Around one write: checks first, and cancels it when another candidate may lead."""
        self.check()
        timeout = asyncio.timeout_at(self._write_deadline())
        try:
            async with timeout:
                self._pending_writes.add(timeout)
                try:
                    yield
                finally:
                    self._pending_writes.discard(timeout)
        except TimeoutError:
            if not timeout.expired():
                raise
            reason = "a write was in flight when the lease expired"
            raise LeadershipLost(self.lease, reason) from None

    def _write_deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._expires - self._clock()


class FencedTransport:
    """A transport that passes writes only of a valid leader; reads always pass.

    `current_leadership` returns the leadership (`lambda: elector.leadership`), or None.
    """

    def __init__(
        self, inner: Transport, current_leadership: Callable[[], Leadership | None]
    ) -> None:
        self._inner = inner
        self._current_leadership = current_leadership

    async def send(self, request: Request) -> Reply:
        if request.method in _READ_METHODS:
            return await self._inner.send(request)
        async with self._require_leadership(request).guard_write():
            return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        if request.method not in _READ_METHODS:
            self._require_leadership(request).check()
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def _require_leadership(self, request: Request) -> Leadership:
        leadership = self._current_leadership()
        if leadership is None:
            raise LeadershipLost(
                "no lease", f"{request.method} {request.path} was sent before this process led"
            )
        return leadership
