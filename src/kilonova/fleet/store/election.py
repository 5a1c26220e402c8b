"""The election of the manager that leads a fleet, on a store that may be replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from kilonova.fleet.documents import FLEET, FleetRecord
from kilonova.fleet.store.epochs import format_epoch
from kilonova.fleet.store.fenced import FencedObjectStore
from kilonova.fleet.store.fleet_store import FleetStore, StoredDocument
from kilonova.fleet.store.store_factory import open_fleet_store
from kilonova.fleet.store.takeover import (
    Candidacy,
    Previous,
    StoreReplaced,
    check_not_moved,
    claim_epoch,
    complete_copy,
    copy_documents,
    mark_replaced,
)
from kilonova.kube.client.errors import KubeError
from kilonova.kube.election import (
    LeaderElectionTiming,
    LeaderElector,
    Leadership,
    LeadershipLost,
)
from kilonova.kube.election.fencing import MonotonicClock, boot_clock
from kilonova.kube.election.leader_elector import generate_identity
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import ObjectStoreError

log = get_logger(__name__)

_FORMER_STORE_SECONDS = 20.0
"""How long a former store is tried: it may be lost."""
_RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FleetTerm:
    """One term as the leader of a fleet."""

    store: FleetStore
    """Its writes fail after the term has ended."""
    epoch: int
    leadership: Leadership


class EndpointReader(Protocol):
    """An `EndpointSource`."""

    def read(self) -> str: ...
    async def wait_for_change(self, endpoint: str) -> str: ...


Lead = Callable[[FleetTerm], Coroutine[Any, Any, None]]


async def _accept_none() -> int:
    return 0


FLEET_TIMING = LeaderElectionTiming(retry_period=1.5, jitter=0.2)
"""The successor of a leader that dies leads 15 to 17 s later."""


class FleetElection:
    """One candidate for the leadership of a fleet.

    `find_accepted_epoch` returns the highest epoch that members are known to have accepted: from
    the hub's Cluster objects. `open_store` opens the store of an endpoint.
    """

    name = "fleet"

    def __init__(
        self,
        source: EndpointReader,
        *,
        find_accepted_epoch: Callable[[], Awaitable[int]] = _accept_none,
        open_store: Callable[[str], FleetStore] = open_fleet_store,
        identity: str = "",
        timing: LeaderElectionTiming = FLEET_TIMING,
        on_leadership_change: Callable[[bool], None] = lambda leading: None,
        clock: MonotonicClock = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity = identity or generate_identity()
        self.term: FleetTerm | None = None
        self.problem = ""
        """Why this candidate cannot lead; empty if it could."""
        self._source = source
        self._find_accepted_epoch = find_accepted_epoch
        self._open_store = open_store
        self._timing = timing
        self._on_leadership_change = on_leadership_change
        self._clock = clock
        self._wall = wall
        self._elector: LeaderElector | None = None
        self._previous = Previous()
        self._highest_epoch = 0

    @property
    def leadership(self) -> Leadership | None:
        """For a `FencedTransport`."""
        return self.term.leadership if self.term else None

    @property
    def is_leading(self) -> bool:
        """Whether a write may start now."""
        return self.term is not None and self.term.leadership.is_valid()

    @property
    def holder(self) -> str:
        """The last observed leader; empty if there was none."""
        return self._elector.holder if self._elector else ""

    async def run(self, lead: Lead) -> None:
        """Run `lead` while this process leads, again for each endpoint.

        When the endpoint changes, `lead` is cancelled, the lease of the former store is released,
        and the election goes on in the next one. Returns when `lead` returns. Raises LeadershipLost
        when the leadership is lost: exit, or call again.
        """
        while True:
            endpoint = self._source.read()
            store = self._open_store(endpoint)
            try:
                if await self._run_until_change(store, endpoint, lead):
                    return
            finally:
                await store.close()

    async def _run_until_change(self, store: FleetStore, endpoint: str, lead: Lead) -> bool:
        """Whether `lead` has returned; else the endpoint has changed."""
        await self._observe_epoch(store)
        electing = asyncio.create_task(self._run_elections(store, endpoint, lead))
        changing = asyncio.create_task(self._source.wait_for_change(endpoint))
        if await _run_first(electing, changing):
            return True
        await self._observe_epoch(store)
        self._previous = Previous(endpoint, self._highest_epoch)
        log.info("endpoint changed", previous=store.name)
        return False

    async def _run_elections(self, store: FleetStore, endpoint: str, lead: Lead) -> None:
        while True:
            elector = self._elector = LeaderElector(
                store.lease,
                identity=self.identity,
                timing=self._timing,
                on_leadership_change=self._on_leadership_change,
                clock=self._clock,
                wall=self._wall,
            )
            try:
                return await elector.run(partial(self._lead, store, endpoint, lead))
            except StoreReplaced as error:
                if self.problem != str(error):
                    log.error("cannot lead", error=str(error))
                self.problem = str(error)
            except _TakeoverFailed as error:
                log.warning("takeover failed, retrying", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)

    async def _lead(
        self, store: FleetStore, endpoint: str, lead: Lead, leadership: Leadership
    ) -> None:
        fenced = FleetStore(FencedObjectStore(store.objects, leadership), store.lease)
        try:
            accepted = await self._find_accepted_epoch()
            candidacy = Candidacy(
                self.identity, endpoint, leadership, accepted, self._previous, self._wall
            )
            claimed = await claim_epoch(fenced, candidacy)
            if claimed.document.copy_from:
                claimed = await self._adopt_documents(fenced, claimed)
        except LeadershipLost:
            raise
        except (ObjectStoreError, KubeError) as error:
            raise _TakeoverFailed(str(error)) from error
        epoch = claimed.document.epoch
        self.problem, self._highest_epoch = "", epoch
        log.info("leading the fleet", epoch=format_epoch(epoch), store=store.name)
        self.term = FleetTerm(fenced, epoch, leadership)
        try:
            leading = asyncio.create_task(lead(self.term))
            await _run_first(leading, asyncio.create_task(self._watch_claim(store, epoch)))
        finally:
            self.term = None

    async def _watch_claim(self, store: FleetStore, epoch: int) -> None:
        """Raise `StoreReplaced` when a leader with another endpoint has replaced the store."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            with suppress(ObjectStoreError):
                found = await store.read(FLEET)
                if found is not None and found.document.epoch == epoch:
                    check_not_moved(store.name, found.document)

    async def _adopt_documents(
        self, store: FleetStore, claimed: StoredDocument[FleetRecord]
    ) -> StoredDocument[FleetRecord]:
        """Copy what the former store has, if it can still be read."""
        record = claimed.document
        try:
            former = self._open_store(record.copy_from)
            try:
                async with asyncio.timeout(_FORMER_STORE_SECONDS):
                    await mark_replaced(former, record.endpoint)
                    copied = await copy_documents(former, store)
                log.info("copied documents", source=former.name, documents=copied)
            finally:
                await former.close()
        except (ObjectStoreError, TimeoutError) as error:
            reason = str(error) or f"no response within {_FORMER_STORE_SECONDS:.0f} s"
            log.warning("former store not readable", store=record.copy_from, error=reason)
        return await complete_copy(store, claimed)

    async def _observe_epoch(self, store: FleetStore) -> None:
        """Remember the epoch of a store, in case that it is replaced."""
        with suppress(ObjectStoreError, TimeoutError):
            async with asyncio.timeout(_RETRY_SECONDS):
                found = await store.read(FLEET)
                if found is not None:
                    self._highest_epoch = max(self._highest_epoch, found.document.epoch)


class _TakeoverFailed(Exception):
    """The store failed between the election and the work."""


async def _run_first(first: asyncio.Task[None], second: asyncio.Task[Any]) -> bool:
    """Wait until one of two tasks ends, and end the other. Whether it was the first one; raises
    what it raised."""
    try:
        await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        first.cancel()
        second.cancel()
        await asyncio.wait({first, second})
    if not first.cancelled():
        first.result()
        return True
    second.result()
    return False
