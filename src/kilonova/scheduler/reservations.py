"""Makes reservations known: those who are in the way are told to go, then the status says what is
kept. What a status says is a promise: whoever schedules after us keeps it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count

from kilonova.api.scheduling import Reservation, ReservationStatus
from kilonova.kube import (
    UNMEASURED,
    ApiStatusError,
    Backoff,
    Client,
    ConnectionFailed,
    Controller,
    Instruments,
    Key,
    NotFound,
    Reflector,
    Result,
    Store,
    Watch,
)
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.plan import Placement, Refusal
from kilonova.scheduler.core.plan import Reservation as Shadow
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.objects import RESERVATIONS
from kilonova.scheduler.reading.reservations import key_of_reservation, reservation_name
from kilonova.scheduler.releases import Releases
from kilonova.scheduler.reservationbook import ReservationBook
from kilonova.scheduler.reservationstatus import is_urgent, status_change, status_of
from kilonova.scheduler.resting import Rests
from kilonova.scheduler.verdicts import Verdict, refused_verdict

_log = get_logger(__name__)

_WORKERS = 4
_LONGEST = 3600.0
"""Clocks are looked at so often, at least: they may be set."""
_WAITS = 5.0
"""Seconds after which it is looked again whether victims are gone."""
_LOOKS = Backoff(0.1, 1.0)
_PAUSES = Backoff(0.5, 10.0)

Explain = Callable[[Refusal, Shadow | None], str]


class Reservations:
    """Keeps the newest word about each reservation, and a controller that writes it."""

    def __init__(
        self,
        client: Client,
        book: ReservationBook,
        reservations: Reflector[Reservation],
        evictions: Evictions,
        releases: Releases,
        rests: Rests,
        events: Recorder,
        explain: Explain,
        now: Callable[[], datetime],
        *,
        pace: float,
        instruments: Instruments = UNMEASURED,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._book = book
        self._reservations = reservations.store
        self._evictions = evictions
        self._releases = releases
        self._rests = rests
        self._events = events
        self._explain = explain
        self._now = now
        self._pace = pace
        self._monotonic = monotonic
        self._placed: dict[Key, Placement] = {}
        self._told_to_go: set[Key] = set()
        """Those of them whose victims were told to go, and may be terminating."""
        self._refused: dict[Key, tuple[Refusal, Shadow | None]] = {}
        self._told_at: dict[Key, float] = {}
        self.controller = Controller(
            "reservations",
            self._write,
            [Watch(reservations)],
            workers=_WORKERS,
            instruments=instruments,
        )
        book.changed = lambda name: self.controller.queue.add(key_of_reservation(name))

    def placed(self, placement: Placement) -> None:
        """A reservation was given its place."""
        key = key_of_reservation(placement.gang.name)
        self._placed[key] = placement
        self._told_to_go.discard(key)
        self._refused.pop(key, None)
        self.controller.queue.add(key)

    def refused(self, refusals: Sequence[Refusal], shadow: Shadow | None) -> None:
        """Reservations that found no place."""
        for refusal in refusals:
            key = key_of_reservation(refusal.gang.name)
            self._refused[key] = refusal, shadow
            self.controller.queue.add(key)

    async def _write(self, key: Key) -> Result | None:
        name = reservation_name(*key)
        placement = self._placed.get(key)
        if placement is not None:
            gone = await self._clear(key, placement)
            if gone is None or self._placed.get(key) is not placement:
                return Result(_WAITS)
            del self._placed[key]
            self._told_to_go.discard(key)
            if gone:
                self._rests.forget(name)
            else:
                self._rests.failed(name)
            self._book.cleared(name, gone)
        reservation, state = self._reservations.get(key), self._book.state(name)
        if reservation is None:
            self._refused.pop(key, None)
            self._told_at.pop(key, None)
            self._releases.forget(name)
            return None
        if state is None:
            return None
        now = self._now().timestamp()
        due = state.next_at
        if due is not None and now >= due:
            self._book.touch(name)
            return None
        status = status_of(reservation, state, self._why(key))
        if status is None:
            return None  # its turn comes
        left = self._told_at.get(key, -self._pace) + self._pace - self._monotonic()
        if left > 0 and not is_urgent(reservation, status):
            return Result(left)
        await self._tell(key, reservation, status)
        return None if due is None else Result(min(due - now, _LONGEST))

    async def _clear(self, key: Key, placement: Placement) -> bool | None:
        """Whether all are gone who were in the way; None while they terminate. That may take long,
        and other reservations have to be told of meanwhile."""
        if self._reservations.get(key) is None:
            return False
        if key not in self._told_to_go:
            self._told_to_go.add(key)
            if await self._evictions.clear(placement):
                return True
        return self._releases.outcome(placement)

    def _why(self, key: Key) -> Verdict | None:
        found = self._refused.get(key)
        return None if found is None else refused_verdict(*found, self._explain)

    async def _tell(self, key: Key, reservation: Reservation, status: ReservationStatus) -> None:
        change = status_change(reservation, status, self._now())
        if change is None:
            return
        self._told_at[key] = self._monotonic()
        meta = reservation.metadata
        body = {"metadata": {"uid": meta.uid}, "status": change}
        try:
            await self._client.apply(RESERVATIONS, key[1], body, key[0], subresource="status")
        except NotFound:
            return  # it went; nobody needs to know any more
        if status.phase != reservation.status.phase or reservation.status.conditions == ():
            (condition,) = status.conditions
            about = Reference.to(RESERVATIONS, meta.name, meta.namespace, meta.uid)
            waits = status.phase == "Pending"
            self._events.event(about, status.phase, condition.message, warning=waits)


async def catch_up(client: Client, reservations: Store[Reservation]) -> None:
    """Waits until the cache shows what was promised before we began."""
    for each in await _written(client):
        key = each.metadata.namespace, each.metadata.name
        for failures in count(1):
            found = reservations.get(key)
            if found is None or _is_as_new(found, each):
                break
            await asyncio.sleep(_LOOKS.delay(failures))


async def _written(client: Client) -> Sequence[Reservation]:
    for failures in count(1):
        try:
            return (await client.list(RESERVATIONS, on_undecodable=lambda _: None)).items
        except NotFound:
            break  # the server does not know the kind
        except (ConnectionFailed, ApiStatusError) as error:
            _log.warning("reservations cannot be read, retrying", error=str(error))
        await asyncio.sleep(_PAUSES.delay(failures))
    return ()


def _is_as_new(found: Reservation, listed: Reservation) -> bool:
    versions = found.metadata.resource_version, listed.metadata.resource_version
    return versions[0] == versions[1] or int(versions[0]) > int(versions[1])
