"""Sharing of a claim's devices as its configuration says: MPS, or the length of time slices.

Containers of all pods with the claim share its devices, and nothing else does. Without a
configuration they take turns as the driver likes.
"""

import asyncio
from collections.abc import Sequence

from kilonova.api.quantity import parse_quantity
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.dra.configs import MpsConfig, Sharing, SharingStrategy, TimeSlicingConfig
from kilonova.gpu.kubelet.holdings import HeldDevice
from kilonova.gpu.kubelet.interfaces import AllocationRefused, InventorySource
from kilonova.gpu.kubelet.mps_edits import build_mps_edits, reporting_mps_failures
from kilonova.gpu.sharing.mps.sharing import DeviceShare, MpsSharing
from kilonova.gpu.sharing.shares import MpsShare
from kilonova.gpu.sharing.time_slicing import TimeSlice, TimeSliceControl, parse_time_slice


class NodeClaimSharing:
    """A `ClaimSharing` by the MPS daemons and the driver of the node."""

    def __init__(
        self, mps: MpsSharing, time_slices: TimeSliceControl, inventory: InventorySource
    ) -> None:
        self._mps = mps
        self._time_slices = time_slices
        self._source = inventory
        self._holders: dict[str, set[str]] = {}
        """MPS holders by the uid of the claim."""
        self._sliced: dict[str, set[str]] = {}
        """Devices whose time slices were set, by the uid of the claim."""

    async def prepare_claim(
        self, uid: str, devices: Sequence[HeldDevice], sharing: Sharing
    ) -> ContainerEdits:
        if sharing.strategy is SharingStrategy.MPS:
            return await self._prepare_mps(uid, devices, sharing.mps_config or MpsConfig())
        config = sharing.time_slicing_config or TimeSlicingConfig()
        length = parse_time_slice(config.interval.value)
        for each in devices:
            self._sliced.setdefault(uid, set()).add(each.device)
            await self._set_slice(each.device, length)
        return ContainerEdits()

    async def release_claim(self, uid: str) -> None:
        for holder in self._holders.pop(uid, ()):
            with reporting_mps_failures():
                await self._mps.release(holder)
        for device in self._sliced.pop(uid, ()):
            await self._set_slice(device, TimeSlice.DEFAULT)

    async def _prepare_mps(
        self, uid: str, devices: Sequence[HeldDevice], config: MpsConfig
    ) -> ContainerEdits:
        if len(devices) != 1:
            raise AllocationRefused(
                f"request {devices[0].request} has {len(devices)} GPUs to be shared by MPS: "
                "use a request for each, because a server of MPS has one"
            )
        (held,) = devices
        share = MpsShare(
            config.default_active_thread_percentage or 100, self._memory_limit(held, config)
        )
        holder = f"{uid}/{held.request}"
        self._holders.setdefault(uid, set()).add(holder)
        with reporting_mps_failures():
            settings = await self._mps.prepare(holder, DeviceShare(held.device, share))
        return build_mps_edits(settings)

    def _memory_limit(self, held: HeldDevice, config: MpsConfig) -> int:
        """MiB: of the device, else of all, else everything."""
        by_device = config.default_per_device_pinned_memory_limit
        limit = by_device.get(held.device) or by_device.get("0")
        limit = limit or config.default_pinned_device_memory_limit
        if limit is not None:
            return max(parse_quantity(limit).value >> 20, 1)
        device = self._source.inventory.find(held.device)
        return max(device.memory_mib if device is not None else 0, 1)

    async def _set_slice(self, device: str, length: TimeSlice) -> None:
        await asyncio.to_thread(self._time_slices.set_time_slice, device, length)
