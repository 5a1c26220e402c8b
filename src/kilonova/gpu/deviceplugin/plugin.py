"""The device plugin of one resource, as the kubelet calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

import grpc
import grpc.aio

from kilonova.gpu.deviceplugin.allocator import Allocator
from kilonova.gpu.deviceplugin.plugin_devices import PluginDevice
from kilonova.gpu.kubelet.grpc import device_plugin_pb2 as wire
from kilonova.gpu.kubelet.grpc.device_plugin_grpc import DevicePluginServicer
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

API_VERSION = "v1beta1"
_HEALTHY = "Healthy"
_UNHEALTHY = "Unhealthy"
OPTIONS = wire.DevicePluginOptions(get_preferred_allocation_available=True)

_OptionsContext: TypeAlias = "grpc.aio.ServicerContext[wire.Empty, wire.DevicePluginOptions]"
_WatchContext: TypeAlias = "grpc.aio.ServicerContext[wire.Empty, wire.ListAndWatchResponse]"
_PreferenceContext: TypeAlias = (
    "grpc.aio.ServicerContext[wire.PreferredAllocationRequest, wire.PreferredAllocationResponse]"
)
_AllocateContext: TypeAlias = (
    "grpc.aio.ServicerContext[wire.AllocateRequest, wire.AllocateResponse]"
)
_StartContext: TypeAlias = (
    "grpc.aio.ServicerContext[wire.PreStartContainerRequest, wire.PreStartContainerResponse]"
)


class ResourcePlugin(DevicePluginServicer):
    """Serves the devices of a resource; each change reaches the kubelet at once."""

    def __init__(
        self, resource: str, allocator: Allocator, devices: Sequence[PluginDevice] = ()
    ) -> None:
        self.resource = resource
        self._allocator = allocator
        self._devices = tuple(devices)
        self._changed = asyncio.Condition()
        self.watchers = 0
        """How many streams the kubelet has open: one, or none."""

    @property
    def devices(self) -> tuple[PluginDevice, ...]:
        return self._devices

    async def set_devices(self, devices: Sequence[PluginDevice]) -> None:
        """The devices are now these."""
        async with self._changed:
            self._devices = tuple(devices)
            self._changed.notify_all()

    async def get_device_plugin_options(
        self, request: wire.Empty, context: _OptionsContext
    ) -> wire.DevicePluginOptions:
        return OPTIONS

    async def list_and_watch(
        self, request: wire.Empty, context: _WatchContext
    ) -> AsyncIterator[wire.ListAndWatchResponse]:
        self.watchers += 1
        _log.info("kubelet watches devices", resource=self.resource, devices=len(self._devices))
        try:
            devices = list_devices(self._devices)
            while True:
                yield wire.ListAndWatchResponse(devices=devices)
                sent = devices
                async with self._changed:
                    while (devices := list_devices(self._devices)) == sent:
                        await self._changed.wait()
        finally:
            self.watchers -= 1

    async def get_preferred_allocation(
        self, request: wire.PreferredAllocationRequest, context: _PreferenceContext
    ) -> wire.PreferredAllocationResponse:
        response = wire.PreferredAllocationResponse()
        for each in request.container_requests:
            ids = await self._allocator.prefer(
                self.resource,
                self._devices,
                each.available_device_ids,
                each.must_include_device_ids,
                each.allocation_size,
            )
            response.container_responses.add(device_ids=ids)
        return response

    async def allocate(
        self, request: wire.AllocateRequest, context: _AllocateContext
    ) -> wire.AllocateResponse:
        response = wire.AllocateResponse()
        for each in request.container_requests:
            try:
                grant = await self._allocator.allocate(
                    self.resource, list(each.device_ids), self._devices
                )
            except AllocationRefused as error:
                _log.warning("devices refused", resource=self.resource, reason=str(error))
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            container = response.container_responses.add(envs=grant.env)
            for name in grant.cdi_devices:
                container.cdi_devices.add(name=name)
        return response

    async def pre_start_container(
        self, request: wire.PreStartContainerRequest, context: _StartContext
    ) -> wire.PreStartContainerResponse:
        return wire.PreStartContainerResponse()


def list_devices(devices: Sequence[PluginDevice]) -> list[wire.Device]:
    """The devices as the kubelet counts them."""
    return [
        wire.Device(
            id=each.id,
            health=_HEALTHY if each.is_healthy else _UNHEALTHY,
            topology=(
                wire.TopologyInfo(nodes=[wire.NumaNode(id=each.device.numa)])
                if each.device.numa >= 0
                else None
            ),
        )
        for each in devices
    ]
