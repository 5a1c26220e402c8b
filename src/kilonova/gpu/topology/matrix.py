"""The matrix of paths between the GPUs of a node. Pure."""

import msgspec

from kilonova.gpu.devices.model import DevicePath, NodeInventory, PathKind

LEGEND: dict[PathKind, str] = {
    PathKind.NVLINK: "NVLinks between the two, or to the same NVSwitches",
    PathKind.INTERNAL: "on one board",
    PathKind.PCIE_SWITCH: "at most one PCIe switch",
    PathKind.PCIE_SWITCHES: "several PCIe switches, without the host bridge",
    PathKind.HOST_BRIDGE: "a PCIe host bridge",
    PathKind.NODE: "PCIe host bridges of one NUMA node",
    PathKind.SYSTEM: "the interconnect between NUMA nodes",
}
"""What each kind of path is, the closest one first."""
UNKNOWN_PATH = "?"


class MatrixRow(msgspec.Struct, frozen=True, rename="camel"):
    """A device, and its path to each device of the node by index."""

    index: int
    paths: tuple[str, ...]
    numa: int
    pcie_switch: str


def build_matrix(inventory: NodeInventory) -> tuple[MatrixRow, ...]:
    """A row per device, in the order of their index."""
    labels: dict[tuple[int, int], str] = {}
    for path in inventory.paths:
        labels[path.first, path.second] = labels[path.second, path.first] = label_path(path)
    indices = [device.index for device in inventory.devices]
    return tuple(
        MatrixRow(
            device.index,
            tuple(
                PathKind.SELF.value
                if device.index == other
                else labels.get((device.index, other), UNKNOWN_PATH)
                for other in indices
            ),
            device.numa,
            device.pcie_switch,
        )
        for device in inventory.devices
    )


def label_path(path: DevicePath) -> str:
    """`NV18`, `PIX`, `SYS`."""
    if path.kind is PathKind.NVLINK:
        return f"{path.kind.value}{path.nvlinks}"
    return path.kind.value


def kind_of_label(label: str) -> PathKind | None:
    """The kind of path that a label names."""
    for kind in PathKind:
        if label.rstrip("0123456789") == kind.value:
            return kind
    return None
