"""The loop that acquires, renews and releases a lease.

One task runs the leader's work, another renews the lease; whichever ends first ends the other. On a
graceful stop the work ends first, while the lease is still renewed, and then the lease is released.
Every write is conditional on the observed version, so that of two candidates one wins. Requests
have timeouts, so that a candidate always notices a lost lease.
"""

import asyncio
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from kilonova.kube.election.fencing import Leadership, MonotonicClock, boot_clock
from kilonova.kube.election.lease import LeaderElectionTiming, LeaseCandidate, LeaseWrite
from kilonova.kube.election.lease_store import LeaseConflict, LeaseStore, LeaseUnavailable
from kilonova.kube.observability.structured_logging import get_logger

log = get_logger(__name__)

T = TypeVar("T")

_MIN_DELAY_SECONDS = 0.01
"""More than the resolution of the loop's clock, which may end a sleep that much too early."""


def generate_identity() -> str:
    """A name for this process that is unique, also across restarts."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One candidate for the lease of a store.

    `on_leadership_change` is called with True when leading starts and with False when it ends.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str = "",
        timing: LeaderElectionTiming | None = None,
        on_leadership_change: Callable[[bool], None] = lambda leading: None,
        clock: MonotonicClock = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = store.name
        self.identity = identity or generate_identity()
        self.leadership: Leadership | None = None
        self._store = store
        self._timing = timing or LeaderElectionTiming()
        self._on_leadership_change = on_leadership_change
        self._clock = clock
        self._wall = wall
        self._jitter = jitter
        self._candidate = LeaseCandidate(self.identity, self._timing)
        self._log = log.bind(lease=store.name, identity=self.identity)
        self._reported_holder = ""
        self._lease_unreachable = False

    @property
    def holder(self) -> str:
        """The last observed holder; empty if there was none."""
        return self._candidate.holder

    async def run(self, lead: Callable[[Leadership], Coroutine[Any, Any, None]]) -> None:
        """Wait until elected, then run `lead` for as long as the leadership lasts.

        Returns when `lead` returns, and raises what it raises. Raises LeadershipLost when the
        leadership is lost, after `lead` was cancelled and has ended: exit, or call again. On
        cancellation, `lead` is cancelled and the lease released; what `lead` raises then is logged.
        """
        leadership = await self._acquire()
        self.leadership = leadership
        self._on_leadership_change(True)
        self._log.info("became leader", term=leadership.token)
        renewing = asyncio.create_task(self._renew(leadership))
        leading = asyncio.create_task(lead(leadership))
        try:
            await asyncio.wait({renewing, leading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # If we were cancelled, a failure of `lead` must not take the place of that: a caller
            # that retries after failures would never stop.
            await self._step_down(leadership, leading, renewing)
        if not leading.cancelled():
            leading.result()
        if not renewing.cancelled():
            renewing.result()

    async def _step_down(
        self, leadership: Leadership, leading: asyncio.Task[None], renewing: asyncio.Task[None]
    ) -> None:
        leading.cancel()
        still_ours = False
        try:
            await asyncio.wait({leading})
            still_ours = leadership.is_valid()
        finally:
            renewing.cancel()
            leadership.end("the leader stopped")
            self.leadership = None
            self._on_leadership_change(False)
            self._log.info("stopped leading", term=leadership.token)
        await asyncio.wait({renewing})
        if still_ours:
            await self._release()

    async def _acquire(self) -> Leadership:
        while True:
            leadership = await self._attempt(self._try_acquire, self._timing.renew_deadline)
            self._report_holder()
            if leadership is not None:
                return leadership
            delay = self._timing.retry_period * (1 + self._timing.jitter * self._jitter())
            held = self._candidate.held_for(self._clock())
            # Not later than the expiry that is known, so that a dead leader is soon replaced.
            await asyncio.sleep(min(delay, max(held, _MIN_DELAY_SECONDS)) if held else delay)

    async def _try_acquire(self) -> Leadership | None:
        await self._observe_lease()
        write = self._candidate.plan_acquire(self._clock(), self._wall())
        if write is None:
            return None
        sent = self._clock()
        await self._write_lease(write)
        return Leadership(self.name, write.record.token, sent, self._timing, self._clock)

    async def _renew(self, leadership: Leadership) -> None:
        """Renew until cancelled; raise LeadershipLost when renewing fails for too long."""
        while True:
            await asyncio.sleep(min(self._timing.retry_period, leadership.remaining()))
            leadership.check()
            # Half of the deadline, so that one hanging request leaves time for another.
            limit = min(self._timing.renew_deadline / 2, leadership.remaining())
            sent = await self._attempt(self._try_renew, limit)
            if sent is not None:
                leadership.extend(sent)
            elif self.holder != self.identity:
                self._report_holder()
                leadership.end(f"{self.holder} holds it" if self.holder else "it has no holder")
                leadership.check()

    async def _try_renew(self) -> float | None:
        """When the successful renewal was sent; None if another candidate leads."""
        write = self._candidate.plan_renewal(self._wall())
        sent = self._clock()
        if write is not None:
            try:
                await self._write_lease(write)
                return sent
            except LeaseConflict:
                # The lease was changed, or our last renewal did arrive: read it again.
                await self._observe_lease()
                write = self._candidate.plan_renewal(self._wall())
                sent = self._clock()
        if write is None:
            return None
        await self._write_lease(write)
        return sent

    async def _release(self) -> None:
        """Release the lease; if that fails it expires later."""

        async def release_lease() -> None:
            # A cancelled renewal may have changed the version that we know.
            await self._observe_lease()
            write = self._candidate.plan_release(self._wall())
            if write is not None:
                await self._write_lease(write)

        await self._attempt(release_lease, self._timing.renew_deadline / 2)

    async def _observe_lease(self) -> None:
        self._candidate.observe(await self._store.read(), self._clock())

    async def _write_lease(self, write: LeaseWrite) -> None:
        if write.version is None:
            lease = await self._store.create(write.record)
        else:
            lease = await self._store.replace(write.record, write.version)
        self._candidate.observe(lease, self._clock())

    async def _attempt(self, operation: Callable[[], Awaitable[T]], limit: float) -> T | None:
        """One attempt; None if it failed. Of consecutive failures only the first is logged."""
        try:
            async with asyncio.timeout(limit):
                result = await operation()
        except LeaseConflict:
            return None
        except (LeaseUnavailable, TimeoutError) as error:
            if not self._lease_unreachable:
                reason = str(error) or f"no response within {limit:.1f} s"
                self._log.warning("lease not reachable, retrying", error=reason)
            self._lease_unreachable = True
            return None
        self._lease_unreachable = False
        return result

    def _report_holder(self) -> None:
        if self.holder and self.holder != self._reported_holder:
            self._reported_holder = self.holder
            self._log.info("new leader observed", leader=self.holder)
