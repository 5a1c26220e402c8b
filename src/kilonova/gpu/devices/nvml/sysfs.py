"""Where a device is on the PCIe tree, as the kernel describes it."""

import re
from pathlib import Path

SYSFS = Path("/sys/bus/pci/devices")

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


def read_numa_node(pci: str, root: Path = SYSFS) -> int:
    """The NUMA node of a device; -1 is unknown."""
    try:
        return max(int((root / pci / "numa_node").read_text()), -1)
    except (OSError, ValueError):
        return -1


def find_pcie_switch(pci: str, root: Path = SYSFS) -> str:
    """The PCI address of the upstream port of the PCIe switch that a device is behind; empty if it
    is behind none, as in most virtual machines.

    The path is `pci0000:15/ROOT PORT/UPSTREAM PORT/DOWNSTREAM PORT/DEVICE`.
    """
    try:
        path = (root / pci).resolve(strict=True)
    except OSError:
        return ""
    bridges = [part for part in path.parts if _ADDRESS.fullmatch(part)]
    return bridges[-3] if len(bridges) >= _LEVELS_WITH_SWITCH else ""


_LEVELS_WITH_SWITCH = 4
