"""The health of the devices of a node's pool, for the status of the pods that have them.

The kubelet writes it to `allocatedResourcesStatus` of containers, and takes what is not repeated in
time for unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import grpc.aio

from kilonova.gpu.devices.model import Device, HealthState, NodeInventory
from kilonova.gpu.dra.resource_slices import list_pool_devices
from kilonova.gpu.kubelet.grpc import dra_health_pb2 as wire
from kilonova.gpu.kubelet.grpc.dra_health_grpc import DRAResourceHealthServicer
from kilonova.gpu.kubelet.interfaces import InventorySource

REPEAT_SECONDS = 60.0
TIMEOUT_SECONDS = 180
_MAX_MESSAGE = 1024

_Context: TypeAlias = (
    "grpc.aio.ServicerContext[wire.NodeWatchResourcesRequest, wire.NodeWatchResourcesResponse]"
)
_STATES = {
    HealthState.HEALTHY: wire.HEALTHY,
    HealthState.DEGRADED: wire.HEALTHY,
    HealthState.UNHEALTHY: wire.UNHEALTHY,
    HealthState.UNKNOWN: wire.UNKNOWN,
}


class DeviceHealthStream(DRAResourceHealthServicer):
    """Reports health at once when it changes, and every minute."""

    def __init__(self, pool: str, inventory: InventorySource, now: Callable[[], float]) -> None:
        self._pool = pool
        self._source = inventory
        self._now = now

    async def node_watch_resources(
        self, request: wire.NodeWatchResourcesRequest, context: _Context
    ) -> AsyncIterator[wire.NodeWatchResourcesResponse]:
        while True:
            inventory = self._source.inventory
            yield build_health_report(self._pool, inventory, int(self._now()))
            try:
                async with asyncio.timeout(REPEAT_SECONDS):
                    await self._wait_for_change(inventory)
            except TimeoutError:
                continue

    async def _wait_for_change(self, seen: NodeInventory) -> None:
        current = seen
        while _list_health(current) == _list_health(seen):
            current = await self._source.wait_for_change(current)


def build_health_report(
    pool: str, inventory: NodeInventory, now: int
) -> wire.NodeWatchResourcesResponse:
    """The health of all devices of the pool: a MIG instance has that of its GPU. Pure."""
    response = wire.NodeWatchResourcesResponse()
    for each in list_pool_devices(inventory).values():
        response.devices.add(
            device=wire.DeviceIdentifier(pool_name=pool, device_name=each.name),
            health=_STATES[each.device.health.state],
            last_updated_time=now,
            health_check_timeout_seconds=TIMEOUT_SECONDS,
            message=_describe(each.device),
        )
    return response


def _describe(device: Device) -> str:
    reasons = "; ".join(device.health.reasons)
    return reasons.encode()[:_MAX_MESSAGE].decode(errors="ignore")


def _list_health(inventory: NodeInventory) -> list[object]:
    return [(each.uuid, each.health) for each in inventory.devices]
