"""The DRA driver as the kubelet calls it, on two sockets.

The kubelet finds the registration socket in `plugins_registry`, asks it for the driver's own
socket, and connects to that. It keeps no state of the sockets over a restart, and looks again; a
registration socket that is recreated is a new registration. The own socket is served first, so that
the kubelet never finds a driver that does not answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import grpc.aio

from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.dra.claims import ClaimNotAllocated
from kilonova.gpu.dra.configs import InvalidConfig
from kilonova.gpu.dra.health import DeviceHealthStream
from kilonova.gpu.dra.preparer import ClaimPreparer
from kilonova.gpu.kubelet.grpc import dra_pb2 as wire
from kilonova.gpu.kubelet.grpc import plugin_registration_pb2 as registration
from kilonova.gpu.kubelet.grpc.dra_grpc import DRAPluginServicer, dra_plugin_service
from kilonova.gpu.kubelet.grpc.dra_health_grpc import dra_resource_health_service
from kilonova.gpu.kubelet.grpc.plugin_registration_grpc import (
    RegistrationServicer,
    registration_service,
)
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from kilonova.gpu.kubelet.paths import KubeletPaths
from kilonova.gpu.kubelet.sockets import POLL_SECONDS, SocketServer
from kilonova.kube import KubeError
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

DEFAULT_DRIVER = "gpu.kilonova.dev"
PLUGIN_TYPE = "DRAPlugin"
SERVICES = ("v1.DRAPlugin",)
"""All kubelets that serve `resource.k8s.io/v1` know it: 1.34 and later."""
_PREPARE_SECONDS = 45.0
"""The kubelet waits as long."""

_Prepare: TypeAlias = wire.NodePrepareResourcesRequest
_Prepared: TypeAlias = wire.NodePrepareResourcesResponse
_Unprepare: TypeAlias = wire.NodeUnprepareResourcesRequest
_Unprepared: TypeAlias = wire.NodeUnprepareResourcesResponse
_Status: TypeAlias = registration.RegistrationStatus
_StatusSeen: TypeAlias = registration.RegistrationStatusResponse
_PrepareContext: TypeAlias = "grpc.aio.ServicerContext[_Prepare, _Prepared]"
_UnprepareContext: TypeAlias = "grpc.aio.ServicerContext[_Unprepare, _Unprepared]"
_InfoContext: TypeAlias = (
    "grpc.aio.ServicerContext[registration.InfoRequest, registration.PluginInfo]"
)
_StatusContext: TypeAlias = "grpc.aio.ServicerContext[_Status, _StatusSeen]"


class DraDriver:
    """Serves a driver to the kubelet. A runnable.

    `on_registered` is called whenever the kubelet has accepted the driver: when it had been gone,
    the kubelet has deleted its ResourceSlices.
    """

    name = "dra-driver"

    def __init__(
        self,
        preparer: ClaimPreparer,
        paths: KubeletPaths,
        *,
        on_registered: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._preparer = preparer
        self._sleep = sleep
        driver = preparer.driver
        health = DeviceHealthStream(preparer.node, preparer.inventory_source, now)
        self._is_serving = asyncio.Event()
        self.registrations = _Registrations(driver, paths.dra_endpoint(driver), on_registered)
        self._plugin = SocketServer(
            f"DRA driver {driver}",
            paths.dra_socket(driver),
            lambda: [
                dra_plugin_service(_Claims(preparer)),
                dra_resource_health_service(health),
            ],
            max_unary_seconds=_PREPARE_SECONDS,
            on_serving=self._note_serving,
            sleep=sleep,
        )
        self._registrar = SocketServer(
            f"registration of DRA driver {driver}",
            paths.plugin_registration(driver),
            lambda: [registration_service(self.registrations)],
            sleep=sleep,
        )

    async def run(self) -> None:
        await self._restore()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._plugin.run())
            await self._is_serving.wait()
            tasks.create_task(self._registrar.run())

    async def _note_serving(self) -> None:
        self._is_serving.set()

    async def _restore(self) -> None:
        while True:
            try:
                return await self._preparer.restore()
            except (KubeError, OSError) as error:
                _log.warning("claims not restored: trying again", error=str(error))
                await self._sleep(POLL_SECONDS)


class _Claims(DRAPluginServicer):
    """Prepares the claims of a request at the same time; each has an answer of its own."""

    def __init__(self, preparer: ClaimPreparer) -> None:
        self._preparer = preparer

    async def node_prepare_resources(
        self, request: _Prepare, context: _PrepareContext
    ) -> _Prepared:
        answers = await asyncio.gather(*(self._prepare(each) for each in request.claims))
        claims = {each.uid: answer for each, answer in zip(request.claims, answers, strict=True)}
        return _Prepared(claims=claims)

    async def node_unprepare_resources(
        self, request: _Unprepare, context: _UnprepareContext
    ) -> _Unprepared:
        answers = await asyncio.gather(*(self._unprepare(each) for each in request.claims))
        claims = {each.uid: answer for each, answer in zip(request.claims, answers, strict=True)}
        return _Unprepared(claims=claims)

    async def _prepare(self, claim: wire.Claim) -> wire.NodePrepareResourceResponse:
        try:
            prepared = await self._preparer.prepare(claim.namespace, claim.name, claim.uid)
        except (
            AllocationRefused,
            ClaimNotAllocated,
            GpuError,
            InvalidConfig,
            KubeError,
            OSError,
        ) as error:
            _log.warning(
                "claim not prepared", claim=f"{claim.namespace}/{claim.name}", reason=str(error)
            )
            return wire.NodePrepareResourceResponse(error=str(error))
        return wire.NodePrepareResourceResponse(
            devices=[
                wire.Device(
                    request_names=[each.request],
                    pool_name=self._preparer.node,
                    device_name=each.name,
                    cdi_device_ids=each.cdi_devices,
                )
                for each in prepared
            ]
        )

    async def _unprepare(self, claim: wire.Claim) -> wire.NodeUnprepareResourceResponse:
        try:
            await self._preparer.unprepare(claim.uid)
        except (AllocationRefused, GpuError, OSError) as error:
            _log.warning(
                "claim not released", claim=f"{claim.namespace}/{claim.name}", reason=str(error)
            )
            return wire.NodeUnprepareResourceResponse(error=str(error))
        return wire.NodeUnprepareResourceResponse()


class _Registrations(RegistrationServicer):
    """Registers the driver with the kubelet."""

    def __init__(self, driver: str, endpoint: str, on_registered: Callable[[], None]) -> None:
        self._driver = driver
        self._endpoint = endpoint
        self._on_registered = on_registered
        self.count = 0
        """How often the kubelet has accepted the driver."""

    async def get_info(
        self, request: registration.InfoRequest, context: _InfoContext
    ) -> registration.PluginInfo:
        return registration.PluginInfo(
            type=PLUGIN_TYPE,
            name=self._driver,
            endpoint=self._endpoint,
            supported_versions=SERVICES,
        )

    async def notify_registration_status(
        self, request: _Status, context: _StatusContext
    ) -> _StatusSeen:
        if request.plugin_registered:
            self.count += 1
            _log.info("DRA driver registered", driver=self._driver)
            self._on_registered()
        else:
            _log.error("DRA driver rejected", driver=self._driver, error=request.error)
        return _StatusSeen()
