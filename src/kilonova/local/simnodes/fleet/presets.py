"""Built-in fleets: one that fits a screen, and one the size of a data centre.

Both have the same three kinds of topology: racks of H100 machines whose GPUs are connected by
NVSwitch, racks of GB200 machines that are one NVLink domain each (NVL72), and a mix of A100s and
L4s.
"""

from pathlib import Path

from msgspec.structs import replace

from kilonova.local.simnodes.fleet.file import FleetError, read_fleet
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup

_H100 = NodeGroup("h100", cpu="192", memory="2Ti", gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"))
_NVL72 = NodeGroup(
    "nvl72", cpu="144", memory="960Gi", gpu=GpuSpec("NVIDIA-GB200", 4, "186Gi", nvlink="rack")
)
_A100 = NodeGroup("a100", cpu="128", memory="1Ti", gpu=GpuSpec("NVIDIA-A100-SXM4-40GB", 8, "40Gi"))
_L4 = NodeGroup("l4", cpu="32", memory="128Gi", gpu=GpuSpec("NVIDIA-L4", 1, "24Gi"))


def small_fleet() -> Fleet:
    """34 machines with 172 GPUs in two zones."""
    return Fleet(
        nodes=(
            replace(_H100, count=8, racks=2),
            replace(_NVL72, count=18),
            replace(_A100, count=4, zones=("zone-b",)),
            replace(_L4, count=4, zones=("zone-b",)),
        )
    )


def large_fleet() -> Fleet:
    """2,000 machines with 12,000 GPUs in three zones, 36 blocks and 290 racks."""
    east, west = ("zone-a", "zone-b"), ("zone-b", "zone-c")
    return Fleet(
        nodes=(
            replace(_H100, count=800, zones=east, blocks=20, racks=200),
            replace(_NVL72, count=720, zones=west, blocks=8, racks=40),
            replace(_A100, count=320, zones=east, blocks=4, racks=40),
            replace(_L4, count=160, zones=west, blocks=4, racks=10),
        )
    )


FLEET_PRESETS = {"small": small_fleet, "large": large_fleet}
"""Presets by name."""


def load_fleet(name: str) -> Fleet:
    """The preset of that name, or the fleet of the file at that path; may raise `FleetError`."""
    if name in FLEET_PRESETS:
        return FLEET_PRESETS[name]()
    path = Path(name)
    if not path.exists():
        raise FleetError(
            f"{path} cannot be read: No such file or directory: "
            f"write {', '.join(FLEET_PRESETS)} or the path of a fleet file"
        )
    return read_fleet(path)
