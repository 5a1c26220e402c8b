"""What the device plugin and the DRA driver need of the rest of the node agent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import MigInstance, NodeInventory

Instances = Mapping[DeviceAssignment, MigInstance]
"""The MIG instances of assignments that name one."""


class AllocationRefused(Exception):
    """Devices that a holder cannot have, and why: the kubelet shows the message with the pod."""


class InventorySource(Protocol):
    """The GPUs of the node, as last read."""

    @property
    def inventory(self) -> NodeInventory:
        """The last inventory."""
        ...

    async def wait_for_change(self, seen: NodeInventory) -> NodeInventory:
        """The next inventory that differs from the one seen."""
        ...


class InstanceProvider(Protocol):
    """The MIG engine, as the device plugin and the DRA driver see it."""

    async def ensure_instances(
        self, owner: str, assignments: Sequence[DeviceAssignment]
    ) -> Instances:
        """Make the MIG instances of the assignments exist, and keep them for the owner until
        `release_instances`; make devices that are assigned as a whole, or as a share, leave MIG
        mode.

        Called again for the same owner, it answers the same. May take seconds. Raises `GpuError`
        or `AllocationRefused`.
        """
        ...

    async def release_instances(self, owner: str) -> None:
        """The owner no longer needs its instances. Nothing happens if it has none."""
        ...


class InventoryFeed:
    """An `InventorySource` that the agent sets after each reading."""

    def __init__(self, inventory: NodeInventory) -> None:
        self._inventory = inventory
        self._changed = asyncio.Condition()

    @property
    def inventory(self) -> NodeInventory:
        return self._inventory

    async def publish(self, inventory: NodeInventory) -> None:
        """The inventory is now this one."""
        async with self._changed:
            self._inventory = inventory
            self._changed.notify_all()

    async def wait_for_change(self, seen: NodeInventory) -> NodeInventory:
        async with self._changed:
            await self._changed.wait_for(lambda: self._inventory != seen)
            return self._inventory


class NoMigEngine:
    """An `InstanceProvider` for nodes whose MIG instances others make: it finds what exists."""

    def __init__(self, inventory: InventorySource) -> None:
        self._inventory = inventory

    async def ensure_instances(
        self, owner: str, assignments: Sequence[DeviceAssignment]
    ) -> Instances:
        devices = {each.index: each for each in self._inventory.inventory.devices}
        found: dict[DeviceAssignment, MigInstance] = {}
        for each in assignments:
            device = devices[each.index]
            if not each.profile and device.mig_enabled:
                raise GpuError(
                    GpuErrorKind.IN_USE, "allocate", device=device.uuid, detail="it is in MIG mode"
                )
            if each.profile:
                place = (each.profile, each.start)
                exists = [one for one in device.instances if (one.profile, one.start) == place]
                if not exists:
                    detail = f"no MIG instance {each.profile} exists at memory slice {each.start}"
                    raise GpuError(
                        GpuErrorKind.NOT_FOUND, "allocate", device=device.uuid, detail=detail
                    )
                found[each] = exists[0]
        return found

    async def release_instances(self, owner: str) -> None:
        pass
