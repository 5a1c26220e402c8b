"""Attributes and capacity of devices in ResourceSlices. Pure, but for `find_pcie_root`.

Names and types are those of NVIDIA's driver. `nvlinks`, `nvlinkBandwidth`, `nvSwitch`, `numaNode`,
`clique`, `index` and `minor` are ours: a claim can ask for GPUs of one NVLink domain or NUMA node
by `matchAttribute`.
"""

from collections.abc import Mapping
from pathlib import Path

from kilonova.api.gpu.slices import (
    PCI_ADDRESS,
    PCIE_ROOT,
    typed_attributes,
    version_attribute,
)
from kilonova.api.json import JsonObject
from kilonova.catalog.mig import MEMORY_SLICES, MigProfile
from kilonova.gpu.devices.model import Device, NodeInventory

_MAX_TEXT = 64
"""Bytes of an attribute."""


def device_attributes(
    inventory: NodeInventory, device: Device, pcie_roots: Mapping[str, str]
) -> JsonObject:
    """The attributes of a whole GPU."""
    own: dict[str, str | int | bool] = {"type": "gpu", "uuid": device.uuid}
    own |= _connections(inventory, device)
    return {**typed_attributes(own), **_common(inventory, device, pcie_roots)}


def instance_attributes(
    inventory: NodeInventory,
    device: Device,
    profile: MigProfile,
    start: int,
    pcie_roots: Mapping[str, str],
    uuid: str = "",
) -> JsonObject:
    """The attributes of a MIG instance; `uuid` if it exists already."""
    own: dict[str, str | int | bool] = {
        "type": "mig",
        "uuid": uuid,
        "parentUUID": device.uuid,
        "profile": profile.name,
        "start": start,
    }
    return {**typed_attributes(own), **_common(inventory, device, pcie_roots)}


def device_capacity(device: Device) -> dict[str, str]:
    """What a whole GPU has."""
    return {
        **({"memory": f"{device.memory_mib}Mi"} if device.memory_mib else {}),
        **({"multiprocessors": str(device.sms)} if device.sms else {}),
    }


def instance_capacity(device: Device, profile: MigProfile) -> dict[str, str]:
    """What an instance of a profile has: as the device specifies, else as the catalog does."""
    known = next((each for each in device.mig_resources if each.profile == profile.name), None)
    memory = device.memory_mib * profile.slices // MEMORY_SLICES
    if known is not None and known.memory_mib:
        memory = known.memory_mib
    sms = profile.sms if known is None or not known.sms else known.sms
    capacity = {**({"memory": f"{memory}Mi"} if memory else {})}
    if sms:
        capacity["multiprocessors"] = str(sms)
    if known is not None:
        capacity["copyEngines"] = str(known.copy_engines)
        capacity["decoders"] = str(known.decoders)
        capacity["encoders"] = str(known.encoders)
        capacity["jpegEngines"] = str(known.jpeg_engines)
        capacity["ofaEngines"] = str(known.ofa_engines)
    return capacity


def find_pcie_root(pci: str, sysfs: Path = Path("/sys")) -> str:
    """The PCIe root of a PCI address, `pci0000:15`: a device of another driver with the same one is
    close. Empty if the kernel does not know the address."""
    try:
        path = (sysfs / "bus/pci/devices" / pci.lower()).resolve(strict=True)
    except OSError:
        return ""
    parts = path.parts[len(sysfs.resolve().parts) :]
    return parts[1] if len(parts) > 2 and parts[1].startswith("pci") else ""


def _common(inventory: NodeInventory, device: Device, pcie_roots: Mapping[str, str]) -> JsonObject:
    values: dict[str, str | int | bool] = {
        "productName": device.product[:_MAX_TEXT],
        "architecture": device.architecture,
        "pciBusID": device.pci,
        PCI_ADDRESS: device.pci,
        PCIE_ROOT: pcie_roots.get(device.pci, ""),
        "index": device.index,
        "pcieSwitch": device.pcie_switch[:_MAX_TEXT],
    }
    if device.minor is not None:
        values["minor"] = device.minor
    if device.numa >= 0:
        values["numaNode"] = device.numa
    if device.fabric is not None:
        values["clique"] = device.fabric.key[:_MAX_TEXT]
    versions = {
        "driverVersion": version_attribute(inventory.driver),
        "cudaDriverVersion": version_attribute(inventory.cuda),
        "cudaComputeCapability": (
            None
            if device.capability is None
            else version_attribute(".".join(map(str, device.capability)))
        ),
    }
    return {
        **typed_attributes(values),
        **{name: value for name, value in versions.items() if value is not None},
    }


def _connections(inventory: NodeInventory, device: Device) -> dict[str, str | int | bool]:
    """NVLinks of a GPU, and the bandwidth that they have together in GB/s, both directions."""
    active = sum(each.is_active for each in device.nvlinks)
    paths = [each for each in inventory.paths if device.index in (each.first, each.second)]
    linked = [each for each in paths if each.bandwidth]
    # Behind a switch all paths share the port of the device.
    shared = max((each.bandwidth for each in linked if each.is_switched), default=0)
    own = sum(each.bandwidth for each in linked if not each.is_switched)
    return {
        "nvlinks": active,
        "nvlinkBandwidth": max(shared, own),
        "nvSwitch": any(each.is_switched for each in linked),
    }
