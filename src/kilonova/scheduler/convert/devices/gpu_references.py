"""Which GPU of a node a published device is: by the attributes that DRA drivers for GPUs publish.

NVIDIA's driver publishes a GPU as `gpu-0` with its `uuid` and PCI address, and a MIG instance that
can be created as a device of its own, with the UUID of its GPU and a counter for each memory slice
that it consumes. Without these counters an instance counts as the whole GPU.
"""

import re
from collections.abc import Iterable, Mapping

from kilonova.api.gpu.annotations import normalize_pci_address
from kilonova.catalog.mig import MEDIA_EXTENSION
from kilonova.scheduler.core.dra.claims import DeviceAttribute, SharedCounter, find_qualified
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU, GpuReference

_GPU_UUID_PREFIX = "GPU-"
_PARENT_UUID = "parentUUID"
_UUID = "uuid"
_PROFILE = "profile"
_PCI_ATTRIBUTES = ("resource.kubernetes.io/pciBusID", "pciBusID", "pcieBusID")
_INDEX_ATTRIBUTES = ("parentIndex", "index", "parentMinor", "minor")
_TYPE = "type"
_GPU_TYPES = frozenset({"gpu", "mig"})
_NAME = re.compile(r"gpu-(\d{1,4})(?:-mig-.+)?", re.ASCII)
_SLICE_COUNTER = re.compile(r"memory-slice-([0-7])", re.ASCII)


def find_gpu_reference(
    driver: str,
    name: str,
    attributes: Mapping[str, DeviceAttribute],
    consumes: Iterable[tuple[SharedCounter, int]],
) -> GpuReference | None:
    """The GPU that a device is, or is a part of; None if it is none."""

    def text(attribute: str) -> str:
        found = find_qualified(attributes, attribute, driver)
        return found.value if found is not None and isinstance(found.value, str) else ""

    parent, profile = text(_PARENT_UUID), text(_PROFILE)
    uuid = parent or text(_UUID)
    if not uuid.startswith(_GPU_UUID_PREFIX):
        uuid = ""
    pci = next((found for each in _PCI_ATTRIBUTES if (found := text(each))), "")
    index = _find_index(driver, name, attributes) if text(_TYPE) in _GPU_TYPES else -1
    if not uuid and not pci and index < 0:
        return None
    mask = _occupied_slices(consumes, profile) if parent or profile else WHOLE_GPU
    return GpuReference(uuid, normalize_pci_address(pci) if pci else "", index, mask)


def _find_index(driver: str, name: str, attributes: Mapping[str, DeviceAttribute]) -> int:
    for each in _INDEX_ATTRIBUTES:
        found = find_qualified(attributes, each, driver)
        if found is not None and found.kind == "int":
            return int(found.value)
    named = _NAME.fullmatch(name)
    return int(named[1]) if named is not None else -1


def _occupied_slices(consumes: Iterable[tuple[SharedCounter, int]], profile: str) -> int:
    mask = 0
    for counter, amount in consumes:
        found = _SLICE_COUNTER.fullmatch(counter.name)
        if found is not None and amount > 0:
            mask |= 1 << int(found[1])
    if not mask:
        return WHOLE_GPU
    return mask | MEDIA_EXTENSION if profile.endswith("+me") else mask
