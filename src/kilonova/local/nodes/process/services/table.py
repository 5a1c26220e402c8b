"""Keeps the keeper's routes equal to the Services and EndpointSlices of the API.

Changes only mark a Service; one task works off the marks and, if any route differs, hands all of
them over. Nothing is handed over before both caches are filled, so that a restart of Kilonova
never takes away routes that pods are using. Before it ends it takes back the ways to the
cluster's DNS, which ends as well: pods then ask the machine's nameservers themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import Any

from kilonova.kube import Reflector
from kilonova.kube.identity import Key
from kilonova.kube.logging import get_logger
from kilonova.local.nodes.process.network.routes import Backend, Route
from kilonova.local.nodes.process.services.objects import EndpointSlice, Service
from kilonova.local.nodes.process.services.routing import nameserver_routes, routes_of

HandOver = Callable[[list[dict[str, Any]]], Awaitable[None]]
"""Gives all routes to the keeper. Raises OSError while the keeper cannot be reached."""

BY_SERVICE = "process node: by service"
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class RouteTable:
    """A part of the cluster."""

    name = "routes of the pod network"

    def __init__(
        self,
        services: Reflector[Service],
        slices: Reflector[EndpointSlice],
        hand_over: HandOver,
        *,
        api: Backend | None,
        dns: Callable[[], Awaitable[Backend]],
        nameservers: Callable[[], list[str]],
    ) -> None:
        self._services = services
        self._slices = slices
        self._hand_over = hand_over
        self._api = api
        self._dns = dns
        self._nameservers = nameservers
        self._routes: dict[Key, tuple[Route, ...]] = {}
        self._marked: set[Key] = set()
        self._wake = asyncio.Event()
        self._stopping = False

    def routes(self, key: Key) -> tuple[Route, ...]:
        """The routes of a Service, as the API has it now."""
        service = self._services.store.get(key)
        return routes_of(service, self._slices.store.find(BY_SERVICE, key), self._api)

    async def run(self) -> None:
        """Work until `stop`."""
        unsubscribe = [
            self._services.store.subscribe(self._service_changed),
            self._slices.store.subscribe(self._slice_changed),
        ]
        try:
            await self._services.wait_synced()
            await self._slices.wait_synced()
            dns = await self._dns()
            self._marked.update(self._services.store.keys())
            stale = True
            while not self._stopping:
                stale = self._renew() or stale
                if stale:
                    stale = not await self._publish(dns)
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._wake.wait(), timeout=_RETRY_SECONDS if stale else None
                    )
                self._wake.clear()
            await self._publish(None)
        finally:
            for each in unsubscribe:
                each()

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping = True
        self._wake.set()

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        self._mark(self._services.store.key_of(service))

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for each in (old, new):
            if each is not None:
                self._mark(each.service)

    def _mark(self, key: Key) -> None:
        self._marked.add(key)
        self._wake.set()

    def _renew(self) -> bool:
        """Bring the marked Services up to date; whether any route is another now."""
        changed = False
        while self._marked:
            key = self._marked.pop()
            routes = self.routes(key)
            if routes == self._routes.get(key, ()):
                continue
            changed = True
            if routes:
                self._routes[key] = routes
            else:
                del self._routes[key]
        return changed

    async def _publish(self, dns: Backend | None) -> bool:
        ways = nameserver_routes(self._nameservers(), dns) if dns else ()
        routes = chain(ways, *self._routes.values())
        try:
            await self._hand_over([route.as_json() for route in routes])
        except OSError as error:
            _log.warning("routes cannot be handed over, will retry", error=str(error))
            return False
        return True
