"""What an allocation strategy is given, and what it returns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from kilonova.api.inference_engine import EngineSpec
from kilonova.instances.resources import Node

GROUP = "kilonova.allocation"
"""The entry-point group of strategies."""


class NodePreference(msgspec.Struct, frozen=True, gc=False):
    """Nodes that are preferred for agents."""

    labels: dict[str, str]
    """Labels that the nodes have."""
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class AllocationConstraints(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """Constraints on where agents are placed. A level is the key of a node label."""

    required: str = ""
    """All agents are in one domain of this level."""
    preferred: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    """Levels, the most preferred first: all agents are in one domain of the first level that has a
    domain with enough capacity; without any, in as few domains of the last level as possible."""
    spread: str = ""
    """Instances of the same deployment are spread over the domains of this level."""
    avoided_nodes: tuple[str, ...] = ()
    """Names of nodes that agents must not be placed on."""
    node_preferences: tuple[NodePreference, ...] = ()


def _no_nodes() -> Iterable[Node]:
    return ()


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """The instance to place."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    """The labels of the instance."""
    spec: EngineSpec
    agents: int
    resource: str
    """The resource of the accelerators."""
    count: int
    """The number of accelerators of each agent."""
    levels: tuple[str, ...]
    """The levels of the cluster's topology, broadest first."""
    allocation: int = 0
    """How often the instance was relocated before."""
    list_nodes: Callable[[], Iterable[Node]] = field(default=_no_nodes, repr=False)
    """The nodes of the cluster."""


AllocationStrategy = Callable[[AllocationRequest], AllocationConstraints]
