"""How the devices of this machine are connected, as NVML reports it."""

from collections.abc import Sequence
from itertools import combinations

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device, DevicePath, PathKind
from kilonova.gpu.devices.nvml.library import Handle
from kilonova.gpu.devices.nvml.session import Session
from kilonova.gpu.devices.paths import direct_path, pcie_path, port_bandwidth

_ANCESTORS = {
    0: PathKind.INTERNAL,
    10: PathKind.PCIE_SWITCH,
    20: PathKind.PCIE_SWITCHES,
    30: PathKind.HOST_BRIDGE,
    40: PathKind.NODE,
    50: PathKind.SYSTEM,
}
_P2P_NVLINK = 2
_P2P_OK = 0


def read_paths(
    session: Session, devices: Sequence[tuple[Device, Handle | None]]
) -> tuple[DevicePath, ...]:
    """The paths between devices; those to a device that does not answer, by what is known of
    it."""
    return tuple(_read_path(session, first, second) for first, second in combinations(devices, 2))


def _read_path(
    session: Session, first: tuple[Device, Handle | None], second: tuple[Device, Handle | None]
) -> DevicePath:
    (one, one_handle), (other, other_handle) = first, second
    if one_handle is not None and other_handle is not None:
        try:
            return _ask_driver(session, one, one_handle, other, other_handle)
        except GpuError as error:
            if error.kind is GpuErrorKind.DRIVER_NOT_FOUND:
                raise
    return DevicePath(one.index, other.index, pcie_path(one, other))


def _ask_driver(
    session: Session, one: Device, one_handle: Handle, other: Device, other_handle: Handle
) -> DevicePath:
    library = session.library
    p2p = session.read(library.nvmlDeviceGetP2PStatus, one_handle, other_handle, _P2P_NVLINK)
    if p2p == _P2P_OK:
        # Behind an NVSwitch no link names the other device. Each device shares its port among all.
        path = direct_path(one, other) or _switched_path(one, other)
        if path is not None:
            return path
    ancestor = session.read(library.nvmlDeviceGetTopologyCommonAncestor, one_handle, other_handle)
    kind = None if ancestor is None else _ANCESTORS.get(ancestor)
    return DevicePath(one.index, other.index, kind or pcie_path(one, other))


def _switched_path(one: Device, other: Device) -> DevicePath | None:
    links = min(sum(link.is_active for link in device.nvlinks) for device in (one, other))
    if not links:
        return None
    bandwidth = min(port_bandwidth(one), port_bandwidth(other))
    return DevicePath(one.index, other.index, PathKind.NVLINK, links, bandwidth, is_switched=True)
