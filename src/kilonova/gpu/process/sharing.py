"""Sharing of devices by MPS on a node: set up for the kubelet's plugins, and kept alive."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.kubelet.holdings import HolderKind, Holding
from kilonova.gpu.sharing.mps.control import PROGRAM, MpsControlProgram
from kilonova.gpu.sharing.mps.sharing import DeviceShare, MpsSharing
from kilonova.gpu.sharing.shares import MpsCapacity, share_of_assignment
from kilonova.kube.observability.structured_logging import get_logger

_CHECK_SECONDS = 30.0
_log = get_logger(__name__)


@dataclass(slots=True)
class MpsKeeper:
    """Starts daemons again that have crashed. A runnable."""

    mps: MpsSharing
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    name: str = "mps daemons"

    async def run(self) -> None:
        while True:
            await self.sleep(_CHECK_SECONDS)
            for device, problem in (await self.mps.check_health()).items():
                _log.warning("MPS daemon of a device", device=device, problem=problem)


async def build_mps(
    directory: Path, backend: GpuBackend, inventory: NodeInventory, holdings: Sequence[Holding]
) -> MpsSharing | None:
    """The MPS daemons of a node, with the shares that its pods had before; None where the program
    of MPS is not installed."""
    if backend.name != "nvml":
        return None
    if shutil.which(PROGRAM) is None:
        _log.warning("shares of GPUs are not limited: MPS is not installed", program=PROGRAM)
        return None
    capacities = {each.uuid: MpsCapacity(each.memory_mib) for each in inventory.devices}
    mps = MpsSharing(directory, MpsControlProgram(), backend, capacities)
    failures = await mps.reconcile(find_shares(inventory, holdings))
    for device, problem in failures.items():
        _log.error("MPS daemon not restored", device=device, error=problem)
    return mps


def find_shares(inventory: NodeInventory, holdings: Sequence[Holding]) -> dict[str, DeviceShare]:
    """The shares that pods have, by their UID. Pure."""
    found: dict[str, DeviceShare] = {}
    for holding in holdings:
        for each in holding.devices:
            device, assignment = inventory.find(each.device), each.assignment
            is_share = not assignment.profile and not assignment.is_whole
            if holding.kind is HolderKind.POD and device is not None and is_share:
                share = share_of_assignment(
                    assignment.milli, assignment.memory_milli, device.memory_mib
                )
                found[holding.uid] = DeviceShare(device.uuid, share)
    return found
