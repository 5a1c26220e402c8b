"""What the usual GPUs are, by the names of their products: what a node agent would find out.

Figures are NVIDIA's. Bandwidths are GB/s, both directions together.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

Links = tuple[tuple[int, int, int], ...]
"""Two indices and what is between them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of GPU; 0 and empty say that there is no such thing."""

    architecture: str
    capability: tuple[int, int]
    """Of CUDA: major, minor."""
    port: int = 0
    """To an NVSwitch."""
    mesh: int = 0
    """Between any two, where four are on a board, which then has no NVSwitch."""
    bridge: int = 0
    """Between two neighbours."""
    cube: int = 0
    """For each link of the eight that are joined as a cube."""
    in_pairs: bool = False
    """Two share a PCIe switch."""
    splits: tuple[int, ...] = ()
    """The sizes in GiB, as sold, of those that can be split by MIG."""
    name: str = ""
    """What its MIG geometries are called after."""

    def geometry(self, mebibytes: int) -> str:
        """What the MIG geometry of a device with that much memory is called."""
        if not self.splits:
            return ""
        size = min(self.splits, key=lambda size: abs(size - mebibytes / 1024))
        return f"{self.name}-{size}GB"

    def links(self, count: int) -> Links:
        """How so many are joined without an NVSwitch."""
        if self.mesh and count == _ON_A_SMALL_BOARD:
            return tuple((a, b, self.mesh) for a in range(count) for b in range(a + 1, count))
        if self.cube and count == _ON_A_CUBE:
            return tuple((a, b, links * self.cube) for a, b, links in _CUBE)
        if self.bridge:
            return tuple((a, a + 1, self.bridge) for a in range(0, count - 1, 2))
        return ()

    def port_of(self, count: int) -> int:
        """What each of so many can exchange through an NVSwitch."""
        return 0 if count == 1 or self.links(count) else self.port


@lru_cache(maxsize=256)
def part_of(model: str) -> Part | None:
    """The part that a product is: `NVIDIA-H100-80GB-HBM3`; None if it is not known here."""
    words = set(re.split(r"[-\s_]+", model.upper()))
    return next((part for wanted, part in _PARTS if words.issuperset(wanted.split())), None)


_ON_A_SMALL_BOARD = 4
_ON_A_CUBE = 8
_CUBE = (
    (0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2),
    (2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2),
)  # fmt: skip
"""Two of the eight V100s of a machine, and the number of links between them."""

_A100, _H100 = (40, 80), (80, 94, 96)
_PARTS = (  # what says more goes first
    ("V100 SXM2", Part("Volta", (7, 0), cube=50, in_pairs=True)),
    ("V100", Part("Volta", (7, 0))),
    ("T4", Part("Turing", (7, 5))),
    ("A10", Part("Ampere", (8, 6))),
    ("A10G", Part("Ampere", (8, 6))),
    ("A30", Part("Ampere", (8, 0), bridge=200, splits=(24,), name="A30")),
    ("A40", Part("Ampere", (8, 6), bridge=112)),
    ("A100 PCIE", Part("Ampere", (8, 0), bridge=600, splits=_A100, name="A100")),
    (
        "A100",
        Part("Ampere", (8, 0), port=600, mesh=200, in_pairs=True, splits=_A100, name="A100"),
    ),
    ("L4", Part("Ada", (8, 9))),
    ("L40", Part("Ada", (8, 9))),
    ("L40S", Part("Ada", (8, 9))),
    ("H100 PCIE", Part("Hopper", (9, 0), bridge=600, splits=_H100, name="H100")),
    ("H100 NVL", Part("Hopper", (9, 0), bridge=600, splits=_H100, name="H100")),
    (
        "H100",
        Part("Hopper", (9, 0), port=900, mesh=300, in_pairs=True, splits=_H100, name="H100"),
    ),
    ("H200 NVL", Part("Hopper", (9, 0), bridge=900, splits=(141,), name="H200")),
    (
        "H200",
        Part("Hopper", (9, 0), port=900, mesh=300, in_pairs=True, splits=(141,), name="H200"),
    ),
    ("B200", Part("Blackwell", (10, 0), port=1800, in_pairs=True, splits=(180,), name="B200")),
    ("GB200", Part("Blackwell", (10, 0), port=1800, splits=(186,), name="GB200")),
    ("B300", Part("Blackwell", (10, 3), port=1800, in_pairs=True, splits=(269,), name="B300")),
    ("GB300", Part("Blackwell", (10, 3), port=1800, splits=(278,), name="GB300")),
)
