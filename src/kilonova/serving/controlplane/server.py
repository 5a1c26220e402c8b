"""The server of the control plane: gRPC and HTTP, from the first service on.

gRPC, protobuf and Envoy's messages take some 30 MB, and there are two ports. A cluster without a
service has none of it: it is loaded, in a thread, when there is one.
"""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from kilonova.cel.optional_imports import PROTOBUF_IMPORT
from kilonova.kube import Reflector
from kilonova.serving.caches import Caches
from kilonova.serving.controlplane.certificate import ControlPlaneCertificate
from kilonova.serving.controlplane.publisher import RunningServer
from kilonova.serving.controlplane.server_parts import ServerParts
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.settings import ServingSettings

if TYPE_CHECKING:
    from kilonova.serving.controlplane import services

_SERVICES = "kilonova.serving.controlplane.services"


class ControlPlaneServer:
    """Serves both ports once there is a service and the caches have synced: a runnable."""

    def __init__(
        self,
        parts: ServerParts,
        caches: Caches,
        settings: ServingSettings,
        certificate: ControlPlaneCertificate | None = None,
    ) -> None:
        self.name = "serving-control-plane"
        self._parts = parts
        self._caches = caches
        self._settings = settings
        self._certificate = certificate
        self._ports = settings.control_plane_port, settings.control_plane_http_port
        self._running = _Announcement()
        self._stopping = asyncio.Event()

    @property
    def address(self) -> ControlPlaneAddress:
        """Where gateways reach it."""
        port, http_port = self._ports
        ca = self._certificate.ca_pem if self._certificate is not None else ""
        return ControlPlaneAddress(self._settings.control_plane_host, port, ca, http_port)

    async def wait_until_running(self) -> RunningServer:
        """Wait until it serves."""
        return await self._running.wait()

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled."""
        waiting = asyncio.create_task(self._wait_for_service())
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not stopped.done():
                await waiting
                await self._serve()
        finally:
            waiting.cancel()
            stopped.cancel()

    def stop(self) -> None:
        """Accept no more calls, end streams and holds, then let `run` return."""
        self._stopping.set()

    async def _wait_for_service(self) -> None:
        caches = self._caches
        for cache in _list_caches(caches):
            await cache.wait_for_sync()
        created = asyncio.Event()
        unsubscribe = caches.services.store.add_event_handler(lambda old, new: created.set())
        try:
            if not len(caches.services.store):
                await created.wait()
        finally:
            unsubscribe()

    async def _serve(self) -> None:
        loaded = cast("services", await asyncio.to_thread(_load_services))
        servers = loaded.build_servers(self._parts, self._settings, self._certificate)
        self._ports = servers.grpc.bind(), servers.http.bind()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(servers.grpc.run())
                group.create_task(servers.http.run())
                self._running.announce(
                    RunningServer(self.address, loaded.render_gateway, loaded.encode_resource)
                )
                await self._stopping.wait()
                self._parts.held.stop()
                servers.grpc.stop()
                servers.http.stop()
        finally:
            await servers.clients.close()


def _load_services() -> object:
    with PROTOBUF_IMPORT:
        return import_module(_SERVICES)


class _Announcement:
    """Lets others wait until the server runs."""

    def __init__(self) -> None:
        self._server: RunningServer | None = None
        self._event = asyncio.Event()

    def announce(self, server: RunningServer) -> None:
        self._server = server
        self._event.set()

    async def wait(self) -> RunningServer:
        await self._event.wait()
        assert self._server is not None
        return self._server


def _list_caches(caches: Caches) -> Sequence[Reflector[Any]]:
    """Those without which a call cannot be answered."""
    return [caches.services, caches.pods, caches.server_sets, caches.gateway_secrets]
