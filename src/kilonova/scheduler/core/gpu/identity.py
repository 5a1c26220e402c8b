"""The identity of GPUs: one GPU may be published twice, by its node and by a DRA driver.

The GPUs of a node have an index, and where its agent publishes them a UUID and a PCI address
(`GpuId`). A device of a ResourceSlice refers to the GPU that it is, or is a part of
(`GpuReference`); what it occupies is a mask of MIG slices, all of them for a whole GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kilonova.scheduler.core.gpu.mig import MASK_COUNT

WHOLE_GPU = MASK_COUNT - 1
"""The mask of a whole GPU."""


@dataclass(frozen=True, slots=True)
class GpuId:
    """UUID and PCI address of a GPU; empty where they are unknown."""

    uuid: str = ""
    pci: str = ""


UNKNOWN_GPU = GpuId()


@dataclass(frozen=True, slots=True)
class GpuReference:
    """The GPU that a published device is, or is a part of; -1 and empty mean unknown."""

    uuid: str = ""
    pci: str = ""
    index: int = -1
    mask: int = WHOLE_GPU

    def find_index(self, gpus: Sequence[GpuId], *, is_local: bool) -> int | None:
        """Its index among the GPUs of a node: by UUID, else by PCI address, else by index.

        The index counts only for a device that is `is_local` to the node, and where neither UUID
        nor PCI address of the GPU with this index says otherwise.
        """
        for wanted, known in (
            (self.uuid, [gpu.uuid for gpu in gpus]),
            (self.pci, [gpu.pci for gpu in gpus]),
        ):
            if wanted and wanted in known:
                return known.index(wanted)
        if not is_local or not 0 <= self.index < len(gpus):
            return None
        gpu = gpus[self.index]
        differs = (self.uuid and gpu.uuid) or (self.pci and gpu.pci)
        return None if differs else self.index


class GpuOccupancy(Protocol):
    """The GPUs of nodes, and which of them pods use without a claim."""

    def gpu_ids(self, row: int) -> Sequence[GpuId]:
        """The GPUs of a node, by index."""
        ...

    def is_used_by_pods(self, row: int, index: int, mask: int) -> bool:
        """Whether a pod has the GPU, a share of it, or a MIG instance on one of these slices; or
        the GPU is unhealthy, or withheld from claims of all of it."""
        ...
