"""Deletes events an hour after they last occurred."""

import asyncio
from datetime import timedelta

import msgspec

from kilonova.api.times import parse_time
from kilonova.kube import Client, Conflict, KubeError, NotFound, Resource
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.clock import Clock

EVENT_TTL = timedelta(hours=1)
_SWEEP_PERIOD = 60.0
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

    def last_seen(self) -> str:
        times = (
            self.metadata.creation_timestamp,
            self.last_timestamp,
            self.event_time,
            self.series.last_observed_time if self.series else None,
        )
        return max(time for time in times if time)


_EVENTS = Resource("", "v1", "events", "Event", True, _Event)


class EventTtlController:
    """Runs once a minute; the order of deletion does not matter."""

    name = "event TTL"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_PERIOD)
            try:
                await self.delete_expired_events()
            except KubeError as error:
                _log.warning("deleting expired events failed, will retry", error=str(error))

    async def delete_expired_events(self) -> None:
        """Delete every event that last occurred before its TTL."""
        horizon = self._clock.now() - EVENT_TTL
        for event in (await self._client.list(_EVENTS)).items:
            if parse_time(event.last_seen()) >= horizon:
                continue
            metadata = event.metadata
            try:
                await self._client.delete(
                    _EVENTS, metadata.name, metadata.namespace, uid=metadata.uid
                )
            except (NotFound, Conflict):
                continue  # deleted, or replaced by another of that name, since the list was read
