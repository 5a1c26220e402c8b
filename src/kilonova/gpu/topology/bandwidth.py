"""The bandwidth between the GPUs of a node, by the rules of the scheduler. Pure.

Behind an NVSwitch, a device exchanges with all others together what its port can carry: 900 GB/s
of an H100 are not 900 with each of seven others at once. Direct NVLinks belong to two devices.
"""

from collections.abc import Iterable

from kilonova.gpu.devices.model import NodeInventory, PathKind
from kilonova.gpu.devices.paths import port_bandwidth
from kilonova.scheduler.core.gpu.device_sets import MAX_DEVICES, DeviceSets


def switch_ports(inventory: NodeInventory) -> tuple[int, ...]:
    """GB/s of the port of each device to an NVSwitch; 0 without one, or in MIG mode."""
    switched = {
        index for path in inventory.paths if path.is_switched for index in (path.first, path.second)
    }
    return tuple(
        port_bandwidth(device) if device.index in switched else 0 for device in inventory.devices
    )


def direct_links(inventory: NodeInventory) -> tuple[tuple[int, int, int], ...]:
    """The positions of two devices with NVLinks between them, and GB/s."""
    positions = {device.index: place for place, device in enumerate(inventory.devices)}
    return tuple(
        (positions[path.first], positions[path.second], path.bandwidth)
        for path in inventory.paths
        if path.kind is PathKind.NVLINK and not path.is_switched
    )


def set_bandwidth(inventory: NodeInventory, indices: Iterable[int]) -> float | None:
    """GB/s that each device of a set exchanges with the others of it, in uniform communication of
    all with all; None for one device, or where there are too many to say.

    0 without NVLink between them.
    """
    wanted = set(indices)
    count = len(inventory.devices)
    mask = sum(1 << place for place, each in enumerate(inventory.devices) if each.index in wanted)
    if mask.bit_count() < 2 or count > MAX_DEVICES:
        return None
    sets = DeviceSets(
        ports=switch_ports(inventory),
        links=direct_links(inventory),
        numa=tuple(device.numa for device in inventory.devices),
        pcie=tuple(device.pcie_switch for device in inventory.devices),
    )
    return float(sets.bandwidth[mask])
