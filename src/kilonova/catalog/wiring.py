"""How the GPUs of a machine are linked, by their model and number. Pure.

Bandwidths are GB/s, both directions together.
"""

from kilonova.catalog.gpus import GpuModel

GpuLinks = tuple[tuple[int, int, int], ...]
"""Two indices and the bandwidth of the link between them."""


def link_gpus(model: GpuModel, count: int) -> GpuLinks:
    """The direct links between so many GPUs of a model."""
    nvlink = model.nvlink
    if nvlink is None:
        return ()
    if nvlink.direct_board and count == nvlink.direct_board:
        each = nvlink.bandwidth // (count - 1)
        return tuple((a, b, each) for a in range(count) for b in range(a + 1, count))
    if nvlink.wiring == "cube" and count == _CUBE_SIZE:
        each = nvlink.bandwidth // nvlink.links
        return tuple((a, b, links * each) for a, b, links in _CUBE_LINKS)
    if nvlink.wiring == "bridge":
        return tuple((a, a + 1, nvlink.bandwidth) for a in range(0, count - 1, 2))
    return ()


def nvswitch_bandwidth(model: GpuModel, count: int) -> int:
    """The bandwidth of each of so many GPUs to an NVSwitch."""
    if model.nvlink is None or model.nvlink.wiring != "switch":
        return 0
    return 0 if count == 1 or link_gpus(model, count) else model.nvlink.bandwidth


_CUBE_SIZE = 8
_CUBE_LINKS = (
    (0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2),
    (2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2),
)  # fmt: skip
"""Pairs of the eight V100s of a machine, and the number of links between them."""
