"""Clusters and gangs for placement decisions."""

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring

BLOCK, RACK = "example.com/block", "example.com/rack"
GPUS = 8


def build_cluster(nodes: int, *queues: QueueSpec) -> Cluster:
    """Equal nodes in racks of 16 and blocks of 256."""
    cluster = Cluster(build_queue_forest(queues))
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


def build_planner(cluster: Cluster) -> Planner:
    """A planner with the scheduler's defaults."""
    return Planner(cluster, default_scoring(), PlannerPolicy((BLOCK, RACK)))


def build_shape(gpus: int, cpu: int = 1_000) -> Shape:
    """A pod with whole GPUs."""
    requests = (("cpu", cpu), ("memory", 4 << 30), (GPU, gpus), ("pods", 1))
    return Shape(requests, GpuRequest(gpus))


def build_single_pods(count: int, queue: str = "default", name: str = "pod") -> list[Gang]:
    """Pods of one GPU in four sizes."""
    shapes = [build_shape(1, 1_000 * size) for size in (1, 2, 4, 8)]
    return [
        single_pod_gang(Member(f"{queue}/{name}-{index}", shapes[index % 4]), queue=queue)
        for index in range(count)
    ]


def build_gang(
    count: int, gpus: int = 1, pack: PackConstraint | None = None, name: str = "gang"
) -> Gang:
    """Equal pods that start together."""
    shape = build_shape(gpus)
    members = tuple(Member(f"default/{name}-{index}", shape) for index in range(count))
    return Gang(f"default/{name}", (Group(name, members, count),), pack or PackConstraint())
