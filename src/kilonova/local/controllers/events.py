"""Events are news: an hour after they were last seen, they go."""

import asyncio
from datetime import timedelta

import msgspec

from kilonova.api.times import parse_time
from kilonova.kube import Client, Conflict, KubeError, NotFound, Resource
from kilonova.kube.logging import get_logger
from kilonova.local.clock import Clock

LIFETIME = timedelta(hours=1)
_EVERY = 60.0
_log = get_logger(__name__)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    creation_timestamp: str
    resource_version: str
    namespace: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None

    def seen(self) -> str:
        times = (
            self.metadata.creation_timestamp,
            self.last_timestamp,
            self.event_time,
            self.series.last_observed_time if self.series else None,
        )
        return max(time for time in times if time)


_EVENTS = Resource("", "v1", "events", "Event", True, _Event)


class EventExpiry:
    """Looks once a minute; the order of deletion does not matter."""

    name = "event expiry"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.expire()
            except KubeError as error:
                _log.warning("will try again", error=str(error))

    async def expire(self) -> None:
        """Delete every event that has been seen last before its lifetime."""
        horizon = self._clock.now() - LIFETIME
        for event in (await self._client.list(_EVENTS)).items:
            if parse_time(event.seen()) >= horizon:
                continue
            known = event.metadata
            try:
                await self._client.delete(_EVENTS, known.name, known.namespace, uid=known.uid)
            except (NotFound, Conflict):
                continue  # gone, or another of that name, since the list was read
