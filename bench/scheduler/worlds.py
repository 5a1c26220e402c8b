"""Clusters and gangs to decide about."""

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group, Member, Pack, single
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.core.snapshot import GPU

BLOCK, RACK = "example.com/block", "example.com/rack"
GPUS = 8


def cluster_of(nodes: int, *queues: QueueSpec) -> Cluster:
    """Equal nodes in racks of 16 and blocks of 256."""
    cluster = Cluster(forest_of(queues))
    allocatable = {"cpu": 192_000, "memory": 2 << 40, "pods": 110, GPU: GPUS}
    for index in range(nodes):
        name = f"node-{index:05}"
        labels = {
            BLOCK: f"block-{index // 256}",
            RACK: f"rack-{index // 16}",
            "kubernetes.io/hostname": name,
        }
        cluster.snapshot.put_node(Node(name, allocatable, labels))
    return cluster


def planner_of(cluster: Cluster) -> Planner:
    """As the scheduler decides by default."""
    return Planner(cluster, default_scoring(), Policy((BLOCK, RACK)))


def shape(gpus: int, cpu: int = 1_000) -> Shape:
    """A pod with whole GPUs."""
    requests = (("cpu", cpu), ("memory", 4 << 30), (GPU, gpus), ("pods", 1))
    return Shape(requests, GpuAsk(gpus))


def singles(count: int, queue: str = "default", name: str = "pod") -> list[Gang]:
    """Pods of one GPU in four sizes."""
    shapes = [shape(1, 1_000 * size) for size in (1, 2, 4, 8)]
    return [
        single(Member(f"{queue}/{name}-{index}", shapes[index % 4]), queue=queue)
        for index in range(count)
    ]


def gang_of(count: int, gpus: int = 1, pack: Pack | None = None, name: str = "gang") -> Gang:
    """Equal pods that start together."""
    of = shape(gpus)
    members = tuple(Member(f"default/{name}-{index}", of) for index in range(count))
    return Gang(f"default/{name}", (Group(name, members, count),), pack or Pack())
