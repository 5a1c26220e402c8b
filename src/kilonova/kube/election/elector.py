"""The loop that takes, renews and releases a Lease.

One task runs the work of the leader, another renews beside it; whichever ends first ends the
other. On a graceful stop the work ends first, still renewed, and then the Lease is released.
Every write is conditional on the resourceVersion that it was decided on, so of two candidates
one wins. Requests that hang are cut off: nobody can be kept from noticing that it lost.
"""

import asyncio
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from kilonova.kube.client import Client
from kilonova.kube.election.fencing import Clock, Leadership, boot_clock
from kilonova.kube.election.lease import LEASES, Candidate, Lease, LeaseWrite, Timing
from kilonova.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kilonova.kube.logging import get_logger

log = get_logger(__name__)

T = TypeVar("T")


def unique_identity() -> str:
    """A name for this process that no other has, also not the one before a restart."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """One candidate for one Lease.

    `client` must not be fenced by this elector. `changed` is told when we begin (True) and
    cease (False) to lead.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        identity: str = "",
        timing: Timing | None = None,
        changed: Callable[[bool], None] = lambda leading: None,
        clock: Clock = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.identity = identity or unique_identity()
        self.leadership: Leadership | None = None
        self._client = client
        self._timing = timing or Timing()
        self._changed = changed
        self._clock = clock
        self._wall = wall
        self._jitter = jitter
        self._candidate = Candidate(self.identity, self._timing)
        self._log = log.bind(lease=f"{namespace}/{name}", identity=self.identity)
        self._reported = ""
        self._out_of_reach = False

    @property
    def holder(self) -> str:
        """Who led when last seen; empty when nobody did."""
        return self._candidate.holder

    async def run(self, lead: Callable[[Leadership], Coroutine[Any, Any, None]]) -> None:
        """Wait until elected, then run `lead` for as long as the leadership lasts.

        Returns when `lead` returns, and raises what it raises. Raises LeadershipLost, after
        `lead` was cancelled and has ended, when the leadership is lost: exit, or call again.
        When cancelled, `lead` is cancelled and the Lease released.
        """
        leadership = await self._acquire()
        self.leadership = leadership
        self._changed(True)
        self._log.info("became leader", term=leadership.token)
        renewing = asyncio.create_task(self._renew(leadership))
        leading = asyncio.create_task(lead(leadership))
        try:
            await asyncio.wait({renewing, leading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
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
            self._changed(False)
            self._log.info("stopped leading", term=leadership.token)
        await asyncio.wait({renewing})
        if still_ours:
            await self._release()

    async def _acquire(self) -> Leadership:
        while True:
            leadership = await self._try(self._take, self._timing.renew_deadline)
            self._report_holder()
            if leadership is not None:
                return leadership
            await asyncio.sleep(
                self._timing.retry_period * (1 + self._timing.jitter * self._jitter())
            )

    async def _take(self) -> Leadership | None:
        await self._look()
        write = self._candidate.takes(self._clock(), self._wall())
        if write is None:
            return None
        sent = self._clock()
        await self._send(write)
        lease = f"{self.namespace}/{self.name}"
        return Leadership(lease, write.token, sent, self._timing, self._clock)

    async def _renew(self, leadership: Leadership) -> None:
        """Renew for ever; raise LeadershipLost when that fails for too long."""
        while True:
            await asyncio.sleep(min(self._timing.retry_period, leadership.remaining()))
            leadership.check()
            # Half of the deadline, so that one request that hangs leaves time for another.
            limit = min(self._timing.renew_deadline / 2, leadership.remaining())
            sent = await self._try(self._prolong, limit)
            if sent is not None:
                leadership.extend(sent)
            elif self.holder != self.identity:
                self._report_holder()
                leadership.end(f"{self.holder or 'nobody'} holds it")
                leadership.check()

    async def _prolong(self) -> float | None:
        """When the renewal that succeeded was sent; None if another leads."""
        write = self._candidate.renews(self._wall())
        sent = self._clock()
        if write is not None:
            try:
                await self._send(write)
                return sent
            except (Conflict, AlreadyExists, NotFound):
                # Somebody touched the Lease, or our last renewal did arrive: look again.
                await self._look()
                write = self._candidate.renews(self._wall())
                sent = self._clock()
        if write is None:
            return None
        await self._send(write)
        return sent

    async def _release(self) -> None:
        """Let the Lease go; if that fails it only expires later."""

        async def let_go() -> None:
            # A renewal that was cut off may have changed the version that we know.
            await self._look()
            write = self._candidate.releases(self._wall())
            if write is not None:
                await self._send(write)

        await self._try(let_go, self._timing.renew_deadline / 2)

    async def _look(self) -> None:
        try:
            lease = await self._client.get(LEASES, self.name, self.namespace)
        except NotFound:
            lease = None
        self._candidate.observe(lease, self._clock())

    async def _send(self, write: LeaseWrite) -> None:
        lease: Lease
        if write.version is None:
            body = {"metadata": {"name": self.name, "namespace": self.namespace}}
            lease = await self._client.create(LEASES, body | {"spec": write.spec}, self.namespace)
        else:
            patch = {"metadata": {"resourceVersion": write.version}, "spec": write.spec}
            lease = await self._client.patch(LEASES, self.name, patch, self.namespace)
        self._candidate.observe(lease, self._clock())

    async def _try(self, act: Callable[[], Awaitable[T]], limit: float) -> T | None:
        """One attempt; None when it failed. Only the first failure of a row is logged."""
        try:
            async with asyncio.timeout(limit):
                result = await act()
        except (Conflict, AlreadyExists):
            return None
        except (KubeError, TimeoutError) as error:
            if not self._out_of_reach:
                why = str(error) or f"no answer within {limit:.1f} s"
                self._log.warning("the lease is out of reach, retrying", error=why)
            self._out_of_reach = True
            return None
        self._out_of_reach = False
        return result

    def _report_holder(self) -> None:
        if self.holder and self.holder != self._reported:
            self._reported = self.holder
            self._log.info("leader seen", leader=self.holder)
