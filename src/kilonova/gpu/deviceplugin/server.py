"""The device plugins of a node, kept registered with the kubelet.

A plugin is registered again whenever the kubelet may have forgotten it: its socket or the kubelet's
was recreated, or the kubelet no longer watches the plugin's devices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import grpc.aio

from kilonova.gpu.deviceplugin.allocator import Allocator
from kilonova.gpu.deviceplugin.plugin import API_VERSION, OPTIONS, ResourcePlugin
from kilonova.gpu.deviceplugin.plugin_devices import (
    Advertisement,
    PluginDevice,
    build_plugin_devices,
)
from kilonova.gpu.kubelet.grpc.device_plugin_grpc import RegistrationStub, device_plugin_service
from kilonova.gpu.kubelet.grpc.device_plugin_pb2 import RegisterRequest
from kilonova.gpu.kubelet.interfaces import InventorySource
from kilonova.gpu.kubelet.paths import KubeletPaths
from kilonova.gpu.kubelet.sockets import POLL_SECONDS, FileIdentity, SocketServer, identify_file
from kilonova.kube import KubeError
from kilonova.kube.grpc import ClientSettings, GrpcClient
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_WATCH_SECONDS = 5.0
"""After which a registered plugin that the kubelet does not watch is registered again."""
_RECONCILE_SECONDS = 30.0
_ALLOCATE_SECONDS = 180.0
"""MIG instances may have to be created first; the kubelet itself waits without a limit."""
_REGISTER_SECONDS = 15.0


@dataclass
class _Plugin:
    """A plugin, and what the kubelet knows of it."""

    plugin: ResourcePlugin
    server: SocketServer
    task: asyncio.Task[None]
    serving: int = 0
    """How often its socket was made."""
    registered: tuple[FileIdentity, int] | None = None
    """With which socket of the kubelet, and which of its own."""
    registered_at: float = 0.0
    problem: str = field(default="", repr=False)


class DevicePluginServer:
    """Runs the device plugins of all resources of the node. A runnable."""

    name = "device-plugin"

    def __init__(
        self,
        allocator: Allocator,
        inventory: InventorySource,
        paths: KubeletPaths,
        *,
        advertisement: Advertisement = Advertisement.POSSIBLE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allocator = allocator
        self._source = inventory
        self._paths = paths
        self._advertisement = advertisement
        self._sleep = sleep
        self._monotonic = monotonic
        self._plugins: dict[str, _Plugin] = {}
        self._pods_changed = asyncio.Event()
        self._refreshing = asyncio.Lock()

    @property
    def registered_resources(self) -> frozenset[str]:
        """The resources whose plugins the kubelet watches."""
        return frozenset(
            name for name, each in self._plugins.items() if each.registered and each.plugin.watchers
        )

    def notice_pods(self) -> None:
        """A pod of the node may have ended: its devices are released soon."""
        self._pods_changed.set()

    async def run(self) -> None:
        await self._restore()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_inventory(tasks))
                tasks.create_task(self._keep_registered())
                tasks.create_task(self._reconcile_periodically())
        finally:
            self._plugins.clear()

    async def _restore(self) -> None:
        """Nothing is served before: the kubelet starts containers only with a registered plugin."""
        while True:
            try:
                return await self._allocator.restore()
            except (KubeError, OSError) as error:
                _log.warning("devices of pods not restored: trying again", error=str(error))
                await self._sleep(POLL_SECONDS)

    async def _follow_inventory(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            inventory = self._source.inventory
            for resource in self._build_plugin_devices():
                if resource not in self._plugins:
                    self._plugins[resource] = self._start(resource, tasks)
            await self._refresh_slots()
            await self._source.wait_for_change(inventory)

    async def _refresh_slots(self) -> None:
        # One at a time: older devices must not be set after newer ones.
        async with self._refreshing:
            devices = self._build_plugin_devices()
            for resource, each in self._plugins.items():
                # A resource without devices stays registered: its capacity is then 0.
                await each.plugin.set_devices(devices.get(resource, ()))

    def _build_plugin_devices(self) -> Mapping[str, tuple[PluginDevice, ...]]:
        allocator = self._allocator
        return build_plugin_devices(
            self._source.inventory,
            self._advertisement,
            allocator.shares_per_gpu,
            allocator.held_devices(),
        )

    def _start(self, resource: str, tasks: asyncio.TaskGroup) -> _Plugin:
        plugin = ResourcePlugin(resource, self._allocator)

        async def count() -> None:
            self._plugins[resource].serving += 1

        server = SocketServer(
            f"device plugin {resource}",
            self._paths.device_plugin(resource),
            lambda: [device_plugin_service(plugin)],
            max_unary_seconds=_ALLOCATE_SECONDS,
            on_serving=count,
            sleep=self._sleep,
        )
        return _Plugin(plugin, server, tasks.create_task(server.run()))

    async def _keep_registered(self) -> None:
        while True:
            kubelet = identify_file(self._paths.registration)
            for resource, each in self._plugins.items():
                if kubelet is not None and self._should_register(resource, each, kubelet):
                    await self._register(resource, each, kubelet)
            await self._sleep(POLL_SECONDS if self._plugins else POLL_SECONDS / 10)

    def _should_register(self, resource: str, each: _Plugin, kubelet: FileIdentity) -> bool:
        if not each.serving or identify_file(self._paths.device_plugin(resource)) is None:
            return False
        if each.registered != (kubelet, each.serving):
            return True
        is_late = self._monotonic() - each.registered_at > _WATCH_SECONDS
        return is_late and not each.plugin.watchers

    async def _register(self, resource: str, each: _Plugin, kubelet: FileIdentity) -> None:
        request = RegisterRequest(
            version=API_VERSION,
            endpoint=self._paths.device_plugin(resource).name,
            resource_name=resource,
            options=OPTIONS,
        )
        serving = each.serving
        settings = ClientSettings(deadline=_REGISTER_SECONDS, attempts=1)
        async with GrpcClient(f"unix:{self._paths.registration}", settings=settings) as client:
            try:
                await client.stub(RegistrationStub).register(request)
            except grpc.aio.AioRpcError as error:
                problem = error.details() or error.code().name
                if problem != each.problem:
                    _log.warning(
                        "device plugin not registered: trying again",
                        resource=resource,
                        error=problem,
                    )
                each.problem = problem
                return
        each.registered = kubelet, serving
        each.registered_at = self._monotonic()
        each.problem = ""
        _log.info("device plugin registered", resource=resource, devices=len(each.plugin.devices))

    async def _reconcile_periodically(self) -> None:
        while True:
            await self._wait_for_pods()
            try:
                await self._allocator.reconcile()
            except KubeError as error:
                _log.warning("devices of pods not reconciled", error=str(error))
            # A withheld GPU is offered no longer once the pod that had it has ended.
            await self._refresh_slots()

    async def _wait_for_pods(self) -> None:
        waits = [
            asyncio.ensure_future(each)
            for each in (self._sleep(_RECONCILE_SECONDS), self._pods_changed.wait())
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        self._pods_changed.clear()
