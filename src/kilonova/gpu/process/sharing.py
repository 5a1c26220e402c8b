"""Sharing of devices for the kubelet's pods and claims: MPS servers, and turns of time-slicing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kilonova.api.gpu_annotations import DeviceAssignment
from kilonova.api.quantity import parse_quantity
from kilonova.gpu.cdi import ContainerEdits
from kilonova.gpu.cdi.spec import Mount
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.dra.configs import MpsConfig, Sharing, SharingStrategy
from kilonova.gpu.kubelet import HeldDevice, HolderKind, Holding
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from kilonova.gpu.sharing.mps_control import MpsError
from kilonova.gpu.sharing.mps_sharing import DeviceShare, MpsSharing, ShareRefused
from kilonova.gpu.sharing.shares import MpsShare, share_of_assignment
from kilonova.gpu.sharing.time_slicing import TimeSliceControl, parse_time_slice
from kilonova.kube.observability.structured_logging import get_logger

_CHECK_SECONDS = 30.0
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (what MPS uses)
_READ_WRITE = ("rw", "nosuid", "nodev", "bind")
_log = get_logger(__name__)


class NodeSharing:
    """What pods with shares, and claims that say so, get of MPS and time-slicing. A runnable, which
    starts daemons again that have crashed."""

    name = "gpu sharing"

    def __init__(
        self,
        mps: MpsSharing,
        turns: TimeSliceControl,
        inventory: Callable[[], NodeInventory],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mps = mps
        self._turns = turns
        self._inventory = inventory
        self._sleep = sleep

    async def restore(self, holdings: Sequence[Holding]) -> None:
        """Give holders what they had when the last agent ended; stop what nobody has."""
        failures = await self._mps.reconcile(self._find_shares(holdings))
        for device, problem in failures.items():
            _log.error("MPS daemon not restored", device=device, error=problem)

    async def prepare_pod(
        self, uid: str, assignments: Sequence[DeviceAssignment]
    ) -> ContainerEdits:
        """The MPS server of a pod with a share; nothing for other pods."""
        share = self._share_of(assignments)
        return ContainerEdits() if share is None else await self._prepare(uid, share)

    async def release_pod(self, uid: str) -> None:
        """The pod has ended."""
        await self._release(uid)

    async def prepare_claim(
        self, uid: str, devices: Sequence[HeldDevice], sharing: Sharing
    ) -> ContainerEdits:
        """An MPS server for the device of a claim, or the length of turns on its devices."""
        if sharing.strategy is SharingStrategy.TIME_SLICING:
            config = sharing.time_slicing_config
            length = parse_time_slice("Default" if config is None else config.interval.value)
            for each in devices:
                await asyncio.to_thread(self._turns.set_time_slice, each.device, length)
            return ContainerEdits()
        if len(devices) != 1 or devices[0].assignment.profile:
            raise AllocationRefused(
                "sharing by MPS is for requests with one GPU; request them one by one"
            )
        device = self._inventory().find(devices[0].device)
        if device is None:
            raise AllocationRefused(f"{devices[0].device} is gone")
        share = _share_of_config(device, sharing.mps_config or MpsConfig())
        return await self._prepare(uid, DeviceShare(device.uuid, share))

    async def release_claim(self, uid: str) -> None:
        """Nothing uses the claim any more."""
        await self._release(uid)

    async def run(self) -> None:
        while True:
            await self._sleep(_CHECK_SECONDS)
            for device, problem in (await self._mps.check_health()).items():
                _log.warning("MPS daemon of a device", device=device, problem=problem)

    async def _prepare(self, holder: str, share: DeviceShare) -> ContainerEdits:
        try:
            settings = await self._mps.prepare(holder, share)
        except ShareRefused as error:
            raise AllocationRefused(str(error)) from error
        except MpsError as error:
            raise GpuError(
                GpuErrorKind.UNKNOWN, "start_mps", device=share.device, detail=str(error)
            ) from error
        pipe = settings.pipe_directory
        mounts = [
            Mount(pipe, pipe, _READ_WRITE),
            Mount(_SHARED_MEMORY, _SHARED_MEMORY, _READ_WRITE),
        ]
        return ContainerEdits().with_env(settings.environment).with_mounts(mounts)

    async def _release(self, holder: str) -> None:
        try:
            await self._mps.release(holder)
        except (MpsError, GpuError) as error:
            # The daemon of a device without shares is stopped by the next `restore` at the latest.
            _log.warning("MPS daemon not stopped", holder=holder, error=str(error))

    def _find_shares(self, holdings: Sequence[Holding]) -> Mapping[str, DeviceShare]:
        found: dict[str, DeviceShare] = {}
        for each in holdings:
            if each.kind is HolderKind.POD:
                share = self._share_of([device.assignment for device in each.devices])
                if share is not None:
                    found[each.uid] = share
        return found

    def _share_of(self, assignments: Sequence[DeviceAssignment]) -> DeviceShare | None:
        devices = {each.index: each for each in self._inventory().devices}
        for each in assignments:
            device = devices.get(each.index)
            if device is not None and not each.profile and not each.is_whole:
                share = share_of_assignment(each.milli, each.memory_milli, device.memory_mib)
                return DeviceShare(device.uuid, share)
        return None


def _share_of_config(device: Device, config: MpsConfig) -> MpsShare:
    limits = config.default_per_device_pinned_memory_limit
    limit = limits.get(device.uuid) or limits.get("0") or config.default_pinned_device_memory_limit
    memory = device.memory_mib if limit is None else parse_quantity(limit).value >> 20
    return MpsShare(config.default_active_thread_percentage or 100, max(memory, 1))
