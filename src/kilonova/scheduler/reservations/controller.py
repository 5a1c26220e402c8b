"""Evicts the victims of reservations, then writes their status.

The status is binding: a new leader takes the reserved nodes from it.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

from kilonova.api.scheduling import Reservation, ReservationStatus
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Client,
    ConnectionFailed,
    Controller,
    Key,
    NotFound,
    Reflector,
    Result,
    Store,
    Watch,
)
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.status import StatusThrottle, apply_status
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    reservation_gang_name,
    reservation_key,
)
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, UnschedulableGang
from kilonova.scheduler.eviction.assembly import EvictionSubsystem
from kilonova.scheduler.objects.core_v1 import RESERVATIONS
from kilonova.scheduler.reservations.status import (
    changes_more_than_message,
    compute_status,
    status_change,
)
from kilonova.scheduler.status.gang_status import Explain
from kilonova.scheduler.status.results import SchedulingResult, rejected_result

_log = get_logger(__name__)

_WORKERS = 4
_MAX_RECHECK_SECONDS = 3600.0
"""Maximum seconds until the wall clock is checked again: it may be set."""
_VICTIM_CHECK_SECONDS = 5.0
"""Seconds between checks whether victims have terminated."""
_CACHE_BACKOFF = Backoff(0.1, 1.0)
_RETRY_BACKOFF = Backoff(0.5, 10.0)


class ReservationController:
    """Keeps the latest result of each reservation; its controller writes the status."""

    def __init__(
        self,
        context: SchedulerContext,
        reservations: Reflector[Reservation],
        caches: CacheSubsystem,
        eviction: EvictionSubsystem,
        explain: Explain,
    ) -> None:
        self._client = context.client
        self._cache = caches.scheduler_cache.reservations
        self._reservations = reservations.store
        self._evictor = eviction.evictor
        self._victim_waiter = eviction.victim_waiter
        self._backoff = caches.backoff
        self._events = context.recorder
        self._explain = explain
        self._now = context.now
        self._throttle = StatusThrottle(context.settings.status_interval, context.monotonic)
        self._placed: dict[Key, GangPlacement] = {}
        self._evicting: set[Key] = set()
        """Reservations whose victims were evicted and may be terminating."""
        self._rejected: dict[Key, tuple[UnschedulableGang, BackfillReservation | None]] = {}
        self.controller = Controller(
            "reservations",
            self._reconcile,
            [Watch(reservations)],
            workers=_WORKERS,
            runtime_metrics=context.runtime_metrics,
        )
        self._cache.on_changed = lambda name: self.controller.queue.add(reservation_key(name))

    def record_placement(self, placement: GangPlacement) -> None:
        """Record a reservation that was placed."""
        key = reservation_key(placement.gang.name)
        self._placed[key] = placement
        self._evicting.discard(key)
        self._rejected.pop(key, None)
        self.controller.queue.add(key)

    def record_rejections(
        self,
        rejections: Sequence[UnschedulableGang],
        backfill_reservation: BackfillReservation | None,
    ) -> None:
        """Record reservations that are unschedulable."""
        for rejection in rejections:
            key = reservation_key(rejection.gang.name)
            self._rejected[key] = rejection, backfill_reservation
            self.controller.queue.add(key)

    async def _reconcile(self, key: Key) -> Result | None:
        name = reservation_gang_name(*key)
        placement = self._placed.get(key)
        if placement is not None:
            terminated = await self._clear_victims(key, placement)
            if terminated is None or self._placed.get(key) is not placement:
                return Result(_VICTIM_CHECK_SECONDS)
            del self._placed[key]
            self._evicting.discard(key)
            if terminated:
                self._backoff.forget(name)
            else:
                self._backoff.record_failure(name)
            self._cache.victims_cleared(name, terminated)
        reservation, state = self._reservations.get(key), self._cache.state(name)
        if reservation is None:
            self._rejected.pop(key, None)
            self._throttle.forget(key)
            self._victim_waiter.forget(name)
            return None
        if state is None:
            return None
        now = self._now().timestamp()
        due = state.next_transition_at
        if due is not None and now >= due:
            self._cache.mark_dirty(name)
            return None
        status = compute_status(reservation, state, self._rejection_result(key))
        if status is None:
            return None  # not attempted yet
        delay = self._throttle.get_delay(key)
        if delay > 0 and not changes_more_than_message(reservation, status):
            return Result(delay)
        await self._write_status(key, reservation, status)
        return None if due is None else Result(min(due - now, _MAX_RECHECK_SECONDS))

    async def _clear_victims(self, key: Key, placement: GangPlacement) -> bool | None:
        """Whether the victims of a reservation have terminated; None while they terminate, which
        may take long and must not delay other reservations."""
        if self._reservations.get(key) is None:
            return False
        if key not in self._evicting:
            self._evicting.add(key)
            if await self._evictor.evict_victims(placement):
                return True
        return self._victim_waiter.reservation_outcome(placement)

    def _rejection_result(self, key: Key) -> SchedulingResult | None:
        found = self._rejected.get(key)
        return None if found is None else rejected_result(*found, self._explain)

    async def _write_status(
        self, key: Key, reservation: Reservation, status: ReservationStatus
    ) -> None:
        change = status_change(reservation, status, self._now())
        if change is None:
            return
        self._throttle.record_write(key)
        meta = reservation.metadata
        if await apply_status(self._client, RESERVATIONS, meta, change) is None:
            return
        if status.phase != reservation.status.phase or reservation.status.conditions == ():
            (condition,) = status.conditions
            reference = ObjectReference.to(RESERVATIONS, meta.name, meta.namespace, meta.uid)
            is_pending = status.phase == "Pending"
            self._events.event(reference, status.phase, condition.message, warning=is_pending)


async def wait_for_reservations(client: Client, reservations: Store[Reservation]) -> None:
    """Wait until the informer shows what previous leaders wrote."""
    for each in await _list_reservations(client):
        key = each.metadata.namespace, each.metadata.name
        for failures in count(1):
            found = reservations.get(key)
            if found is None or _is_up_to_date(found, each):
                break
            await asyncio.sleep(_CACHE_BACKOFF.delay(failures))


async def _list_reservations(client: Client) -> Sequence[Reservation]:
    for failures in count(1):
        try:
            return (await client.list(RESERVATIONS, on_undecodable=lambda _: None)).items
        except NotFound:
            break  # the API server does not serve the kind
        except (ConnectionFailed, ApiStatusError) as error:
            _log.warning("reservations not listed, retrying", error=str(error))
        await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
    return ()


def _is_up_to_date(found: Reservation, listed: Reservation) -> bool:
    versions = found.metadata.resource_version, listed.metadata.resource_version
    return versions[0] == versions[1] or int(versions[0]) > int(versions[1])
