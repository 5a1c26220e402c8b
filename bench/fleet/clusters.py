"""Clusters with instances, and the gang of one more."""

from collections.abc import Iterator

from kilonova.api.inference_engine import names
from kilonova.api.nodes.topology_labels import BLOCK, RACK, ZONE
from kilonova.artifacts.builds import Build
from kilonova.instances.alloc.allocation import BuildRequest, find_levels
from kilonova.instances.allocation.strategies import tightest
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.node_table import GPU
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot

GPUS = 8
_RACK, _BLOCK, _ZONE = 16, 256, 2_560
_USED_OF_RACKS = 3
"""Every so many racks, all GPUs of one are used."""
_RACKS_OF_INSTANCE = 2


def build_snapshot(nodes: int) -> ClusterSnapshot:
    """Equal nodes, a third of the racks used by instances."""
    cluster = Cluster()
    allocatable = {"cpu": 192_000, "memory": 2 << 40, "pods": 110, GPU: GPUS}
    for index in range(nodes):
        labels = {
            ZONE: f"zone-{index // _ZONE}",
            BLOCK: f"block-{index // _BLOCK}",
            RACK: f"rack-{index // _RACK}",
            "kubernetes.io/hostname": f"node-{index}",
        }
        cluster.snapshot.put_node(Node(f"node-{index}", allocatable, labels))
    cluster.snapshot.add_pods(list(_place_agents(cluster, nodes)))
    return take_snapshot(cluster, (), (), PlannerPolicy((ZONE, BLOCK, RACK)), 0.0)


def build_gang(cluster_snapshot: ClusterSnapshot, agents: int) -> Gang:
    """An instance with a GPU for each agent, allocated as tightly as possible."""
    build = Build(id="bench", model="bench", agents=agents)
    request = BuildRequest.of(build, "default", "tightest")
    constraints = tightest(request.ask_strategy(find_levels(cluster_snapshot), ()))
    return request.build_gang(constraints, cluster_snapshot)


def _place_agents(cluster: Cluster, nodes: int) -> Iterator[PodPlacement]:
    shape = Shape((("cpu", 1000), (GPU, 1), ("pods", 1)), GpuRequest(1))
    for index in range(nodes):
        rack = index // _RACK
        if rack % _USED_OF_RACKS:
            continue
        instance = f"engine-{rack // _USED_OF_RACKS // _RACKS_OF_INSTANCE}"
        row = cluster.snapshot.row(f"node-{index}")
        for gpu in range(GPUS):
            pod = f"default/{instance}-agent-{index}-{gpu}"
            member = Member(pod, shape, {names.MODEL_INSTANCE: instance})
            yield PodPlacement(member, row, (GpuShare(gpu),), f"default/iei-{instance}")
