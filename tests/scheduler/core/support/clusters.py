"""Small clusters and gangs for tests of placement."""

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, Scores
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer

ANYWHERE = PackConstraint()
RACK, BLOCK = "example.com/rack", "example.com/block"


def node(name: str, gpus: int = 8, cpu: int = 64_000, **labels: str) -> Node:
    """A node of 256 GiB; labels by short names: rack, block."""
    keys = {"rack": RACK, "block": BLOCK}
    return Node(
        name,
        {"cpu": cpu, "memory": 256 << 30, "pods": 110, GPU: gpus},
        {keys.get(key, key): value for key, value in labels.items()},
    )


def snapshot_of(*nodes: Node) -> Snapshot:
    snapshot = Snapshot()
    for each in nodes:
        snapshot.put_node(each)
    return snapshot


def tight(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Prefers nodes with little left."""
    return 100.0 - snapshot.free[snapshot.resources[GPU], rows].clip(0, 100)


def placer(snapshot: Snapshot) -> Placer:
    return Placer(snapshot, FeasibilityCache(snapshot, tight), (BLOCK, RACK))


def shape(gpus: int = 1, cpu: int = 1000, milli: int = 1000) -> Shape:
    requests = {"cpu": cpu, "memory": 1 << 30, "pods": 1}
    if gpus and milli == 1000:
        requests[GPU] = gpus
    request = GpuRequest(gpus, milli) if gpus else None
    return Shape(tuple(sorted(requests.items())), request)


def group(
    name: str,
    count: int,
    minimum: int | None = None,
    *,
    of: Shape | None = None,
    pack: PackConstraint = ANYWHERE,
) -> Group:
    members = tuple(Member(f"ns/{name}-{index}", of or shape()) for index in range(count))
    return Group(name, members, count if minimum is None else minimum, pack)


def gang(name: str, *groups: Group, pack: PackConstraint = ANYWHERE) -> Gang:
    return Gang(name, groups, pack)
