"""What placement knows of a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.devices import Layout
from kilonova.scheduler.core.taints import Taint


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what it has, what it is called, who may come.

    `allocatable` is in the units of the snapshot. `layout` are its GPUs; where it is None and
    `nvidia.com/gpu` is allocatable, the node has so many of which nothing else is known.
    """

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict[str, int])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    layout: Layout | None = None
