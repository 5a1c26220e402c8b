"""Publishes routes of the API's Services and EndpointSlices to the shim.

Events only mark a Service as dirty; one task recomputes dirty Services and, if any route changed,
publishes all of them. Nothing is published before both caches have synced, so that a restart of
Kilonova never removes routes that pods are using. On shutdown it removes the routes to the cluster
DNS, which stops as well: pods then reach the machine's nameservers directly.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import Any

from kilonova.kube import Reflector
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.processnode.network.routes import Backend, ServiceRoute
from kilonova.local.processnode.services.objects import EndpointSlice, Service
from kilonova.local.processnode.services.proxy.service_routes import (
    build_nameserver_routes,
    build_routes,
)

RoutePublisher = Callable[[list[dict[str, Any]]], Awaitable[None]]
"""Sends all routes to the shim. Raises OSError while the shim cannot be reached."""

BY_SERVICE = "process node: by service"
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class RouteTable:
    """The routes of all Services, as a runnable of the cluster."""

    name = "pod network routes"

    def __init__(
        self,
        services: Reflector[Service],
        slices: Reflector[EndpointSlice],
        publish_routes: RoutePublisher,
        *,
        api: Backend | None,
        dns: Callable[[], Awaitable[Backend]],
        nameservers: Callable[[], list[str]],
    ) -> None:
        self._services = services
        self._slices = slices
        self._publish_routes = publish_routes
        self._api = api
        self._dns = dns
        self._nameservers = nameservers
        self._routes: dict[Key, tuple[ServiceRoute, ...]] = {}
        self._dirty: set[Key] = set()
        self._wake = asyncio.Event()
        self._stopping = False

    def routes_of(self, key: Key) -> tuple[ServiceRoute, ...]:
        """The routes of a Service as it is in the API now."""
        service = self._services.store.get(key)
        return build_routes(service, self._slices.store.by_index(BY_SERVICE, key), self._api)

    async def run(self) -> None:
        """Work until `stop`."""
        unsubscribe = [
            self._services.store.add_event_handler(self._handle_service_change),
            self._slices.store.add_event_handler(self._handle_slice_change),
        ]
        try:
            await self._services.wait_for_sync()
            await self._slices.wait_for_sync()
            dns = await self._dns()
            self._dirty.update(self._services.store.keys())
            stale = True
            while not self._stopping:
                stale = self._update_dirty_routes() or stale
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

    def _handle_service_change(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        self._mark_dirty(self._services.store.key_of(service))

    def _handle_slice_change(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for each in (old, new):
            if each is not None:
                self._mark_dirty(each.service_key)

    def _mark_dirty(self, key: Key) -> None:
        self._dirty.add(key)
        self._wake.set()

    def _update_dirty_routes(self) -> bool:
        """Recompute dirty Services; returns whether any route changed."""
        changed = False
        while self._dirty:
            key = self._dirty.pop()
            routes = self.routes_of(key)
            if routes == self._routes.get(key, ()):
                continue
            changed = True
            if routes:
                self._routes[key] = routes
            else:
                del self._routes[key]
        return changed

    async def _publish(self, dns: Backend | None) -> bool:
        ways = build_nameserver_routes(self._nameservers(), dns) if dns else ()
        routes = chain(ways, *self._routes.values())
        try:
            await self._publish_routes([route.as_json() for route in routes])
        except OSError as error:
            _log.warning("routes not published to the shim, will retry", error=str(error))
            return False
        return True
