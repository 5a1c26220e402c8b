"""Shares of GPUs by MPS, for pods whose annotation assigns them one: `1:500`."""

from collections.abc import Sequence

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.kubelet.interfaces import AllocationRefused, InventorySource
from kilonova.gpu.kubelet.mps_edits import build_mps_edits, reporting_mps_failures
from kilonova.gpu.sharing.mps.sharing import DeviceShare, MpsSharing
from kilonova.gpu.sharing.shares import share_of_assignment


class MpsPodSharing:
    """A `PodSharing` by MPS. Pods without shares are left alone."""

    def __init__(self, mps: MpsSharing, inventory: InventorySource) -> None:
        self._mps = mps
        self._source = inventory

    async def prepare_pod(
        self, uid: str, assignments: Sequence[DeviceAssignment]
    ) -> ContainerEdits:
        shares = [each for each in assignments if not each.profile and not each.is_whole]
        if not shares:
            return ContainerEdits()
        if len(shares) > 1:
            raise AllocationRefused("MPS gives a pod a share of one GPU, not of several")
        (wanted,) = shares
        device = next(each for each in self._source.inventory.devices if each.index == wanted.index)
        share = share_of_assignment(wanted.milli, wanted.memory_milli, device.memory_mib)
        with reporting_mps_failures():
            settings = await self._mps.prepare(uid, DeviceShare(device.uuid, share))
        return build_mps_edits(settings)

    async def release_pod(self, uid: str) -> None:
        with reporting_mps_failures():
            await self._mps.release(uid)
