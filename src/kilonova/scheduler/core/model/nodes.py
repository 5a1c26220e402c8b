"""What scheduling reads of a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.gpu.identity import GpuId
from kilonova.scheduler.core.gpu.layout import GpuLayout
from kilonova.scheduler.core.model.taints import Taint


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    `allocatable` is in the units of the snapshot. `layout` describes its GPUs; where it is None and
    `nvidia.com/gpu` is allocatable, only the number of GPUs is known. `gpu_ids` identifies them, by
    index, as far as known.
    """

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict[str, int])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    layout: GpuLayout | None = None
    gpu_ids: tuple[GpuId, ...] = ()
