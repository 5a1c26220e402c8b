"""How two devices are connected, from what is known of each. Pure."""

from collections.abc import Sequence
from itertools import combinations

from kilonova.gpu.devices.model import Device, DevicePath, PathKind

LINK_BANDWIDTH = {1: 40, 2: 50, 3: 50, 4: 50, 5: 100}
"""GB/s of one NVLink, both directions, by its version."""


def pcie_path(first: Device, second: Device) -> PathKind:
    """The connection over PCIe, by switch and NUMA node, for a driver that does not report it."""
    if first.pcie_switch and first.pcie_switch == second.pcie_switch:
        return PathKind.PCIE_SWITCH
    same_node = first.numa >= 0 and first.numa == second.numa
    return PathKind.NODE if same_node else PathKind.SYSTEM


def port_bandwidth(device: Device) -> int:
    """GB/s of all active NVLinks of a device, both directions; 0 without any."""
    return sum(LINK_BANDWIDTH.get(link.version, 0) for link in device.nvlinks if link.is_active)


def switched_path(first: Device, second: Device) -> DevicePath | None:
    """The path of two devices through an NVSwitch, if both have active links to one.

    What they exchange is limited by the narrower port, which is shared with all other devices.
    """
    links = min(_switch_links(first), _switch_links(second))
    if not links:
        return None
    bandwidth = min(port_bandwidth(first), port_bandwidth(second))
    return DevicePath(
        first.index, second.index, PathKind.NVLINK, links, bandwidth, is_switched=True
    )


def direct_path(first: Device, second: Device) -> DevicePath | None:
    """The path of two devices over NVLinks between them, if there are active ones."""
    links = [
        link
        for link in first.nvlinks
        if link.is_active and not link.is_switch and link.remote and link.remote == second.pci
    ]
    if not links:
        return None
    bandwidth = sum(LINK_BANDWIDTH.get(link.version, 0) for link in links)
    return DevicePath(first.index, second.index, PathKind.NVLINK, len(links), bandwidth)


def connect_devices(devices: Sequence[Device]) -> tuple[DevicePath, ...]:
    """All paths of a machine. A device in MIG mode uses no NVLink."""
    return tuple(_connect(first, second) for first, second in combinations(devices, 2))


def _connect(first: Device, second: Device) -> DevicePath:
    path = None
    if not first.mig_enabled and not second.mig_enabled:
        path = direct_path(first, second) or switched_path(first, second)
    return path or DevicePath(first.index, second.index, pcie_path(first, second))


def _switch_links(device: Device) -> int:
    return sum(1 for link in device.nvlinks if link.is_active and link.is_switch)
