"""Small clusters with instances and other pods, as snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kilonova.api.inference_engine import names
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot

ZONE, BLOCK, RACK = "topology.kubernetes.io/zone", "kilonova.dev/block", "kilonova.dev/rack"
NPU = "example.com/npu"
NOW = 1_777_593_600.0
_KEYS = (ZONE, BLOCK, RACK)
_STATES = {
    "Cordoned": Taint("node.kubernetes.io/unschedulable", "NoSchedule"),
    "NotReady": Taint("node.kubernetes.io/not-ready", "NoExecute"),
}


def node(
    name: str,
    where: str = "",
    gpus: int = 4,
    *,
    unhealthy: Sequence[int] = (),
    withheld: Sequence[int] = (),
    states: Sequence[str] = (),
    resources: Mapping[str, int] | None = None,
) -> Node:
    """A node; `where` is ZONE/BLOCK/RACK, as far as it has them."""
    labels = {key: value for key, value in zip(_KEYS, where.split("/"), strict=False) if value}
    layout = GpuLayout(
        tuple(
            Gpu(index, healthy=index not in unhealthy, withheld=index in withheld)
            for index in range(gpus)
        )
    )
    amounts = {"cpu": 64_000, "memory": 1 << 40, "pods": 110, **(resources or {})}
    if gpus:
        amounts["nvidia.com/gpu"] = gpus
    taints = tuple(_STATES[state] for state in states)
    return Node(name, amounts, {**labels, "kubernetes.io/hostname": name}, taints, layout)


def rack(where: str, count: int = 2, gpus: int = 4) -> list[Node]:
    """Equal nodes, named by their rack."""
    name = where.rpartition("/")[2]
    return [node(f"{name}-n{index}", where, gpus) for index in range(count)]


def pod(
    name: str,
    on: str,
    devices: Iterable[int | GpuShare] = (),
    *,
    instance: str = "",
    labels: Mapping[str, str] | None = None,
    gang: str = "",
    resources: Mapping[str, int] | None = None,
) -> tuple[str, PodPlacement]:
    """A placed pod of `default`: its node, and the placement."""
    shares = tuple(each if isinstance(each, GpuShare) else GpuShare(each) for each in devices)
    whole = all(share == GpuShare(share.index) for share in shares)
    amounts = {"cpu": 100, "pods": 1, **(resources or {})}
    request = None
    if shares and whole:
        amounts["nvidia.com/gpu"] = len(shares)
        request = GpuRequest(len(shares))
    elif shares:
        request = GpuRequest(len(shares), shares[0].milli, shares[0].profile)
    of = {names.MODEL_INSTANCE: instance} if instance else {}
    member = Member(
        f"default/{name}", Shape(tuple(sorted(amounts.items())), request), {**of, **(labels or {})}
    )
    return on, PodPlacement(member, 0, shares, gang)


def snapshot_of(
    *nodes: Node,
    pods: Iterable[tuple[str, PodPlacement]] = (),
    pending: Sequence[Gang] = (),
    levels: tuple[str, ...] = (),
) -> ClusterSnapshot:
    """A snapshot of nodes and placed pods."""
    cluster = Cluster()
    for each in nodes:
        cluster.snapshot.put_node(each)
    for on, placement in pods:
        row = cluster.snapshot.row(on)
        cluster.snapshot.add_pod(replace(placement, row=row))
    return take_snapshot(cluster, pending, (), PlannerPolicy(levels), NOW)
