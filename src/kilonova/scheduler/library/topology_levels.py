"""The levels of a cluster's topology, and where nodes are in it. Pure.

A level is the key of a node label, a domain one of its values. Schedulers need no list of levels
to pack a gang; a list is needed to show domains, and to say in which one something is.
"""

from collections.abc import Iterable, Mapping, Sequence

from kilonova.api.grove import ClusterTopologyBinding

_KNOWN_LEVELS = (
    ("region",),
    ("zone",),
    ("network-node-layer-1",),
    ("network-node-layer-2",),
    ("network-node-layer-3",),
    ("superpod", "spine"),
    ("block", "gce-topology-block"),
    ("subblock", "gce-topology-subblock"),
    ("rack", "leaf"),
)
"""What follows the slash in the keys of common topology labels, broadest first: of Kubernetes, EC2,
GKE, and those that operators of clusters choose themselves."""

DomainPath = tuple[str, ...]
"""The domains of a node, by level; empty where the node lacks the label."""


def find_topology_levels(nodes: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The levels that the labels of nodes have, broadest first."""
    keys: set[str] = set()
    for labels in nodes:
        keys.update(labels)
    order = {name: rank for rank, names in enumerate(_KNOWN_LEVELS) for name in names}
    ranked = ((order.get(key.rpartition("/")[2], -1), key) for key in keys)
    return tuple(key for rank, key in sorted(ranked) if rank >= 0)


def select_bound_levels(bindings: Iterable[ClusterTopologyBinding]) -> tuple[str, ...]:
    """The levels of the first ClusterTopologyBinding by name; none without one."""
    first = min(bindings, key=lambda each: each.metadata.name, default=None)
    return () if first is None else tuple(level.key for level in first.spec.levels)


def domain_path(labels: Mapping[str, str], levels: Sequence[str]) -> DomainPath:
    """Where a node is."""
    return tuple(labels.get(level, "") for level in levels)


def common_domain(paths: Iterable[DomainPath]) -> DomainPath:
    """The smallest domain that has all nodes, as the path to it; empty if no level has one."""
    found: DomainPath | None = None
    for path in paths:
        found = path if found is None else _common_prefix(found, path)
    return () if found is None else _common_prefix(found, found)


def format_domain(path: DomainPath) -> str:
    """`zone-a/block-1/rack-2`; levels that the node lacks are left out."""
    return "/".join(filter(None, path))


def _common_prefix(first: DomainPath, second: DomainPath) -> DomainPath:
    """The levels that both have; a level that a node lacks has nothing in common."""
    end = 0
    for position, (one, other) in enumerate(zip(first, second, strict=False), 1):
        if one and other and one != other:
            break
        end = position if one and one == other else end
    return first[:end]
