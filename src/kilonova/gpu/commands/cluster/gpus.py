"""The GPUs of a cluster, as its nodes publish them, with the pods that have them."""

from collections.abc import Mapping, Sequence

import msgspec

from kilonova.api.gpu.annotations import (
    DEVICES,
    TOPOLOGY,
    DeviceAssignment,
    Gpu,
    InvalidAnnotation,
    Topology,
    parse_devices,
    parse_topology,
)
from kilonova.api.gpu.metrics import ANNOTATION, GpuReading, InstanceReading, parse_readings
from kilonova.catalog.mig import geometry_named
from kilonova.kube import Client, KubeError, Resource


class ClusterGpu(msgspec.Struct, frozen=True, rename="camel"):
    """A GPU of a node. None is unknown; utilisation is 0 to 1."""

    node: str
    index: int
    uuid: str
    model: str
    memory_mib: int
    healthy: bool
    reason: str
    mig_enabled: bool
    mig_instances: tuple[str, ...]
    """`PROFILE@START` of those that exist."""
    holders: tuple[str, ...]
    """`NAMESPACE/NAME` of the pods that have it, or a part of it."""
    utilisation: float | None = None
    memory_used_mib: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None


class ClusterSlice(msgspec.Struct, frozen=True, rename="camel"):
    """A MIG instance of a node, or a share of a GPU."""

    node: str
    gpu: int
    profile: str
    """Of a MIG instance; of a share its parts in thousandths: `500`, `500/250`."""
    start: int | None
    uuid: str
    state: str
    """Available, Allocated, Creating (a pod waits for it) or Shared."""
    holder: str
    memory_gb: int | None = None
    utilisation: float | None = None
    memory_used_mib: int | None = None


class _Annotations(msgspec.Struct, frozen=True):
    topology: str = msgspec.field(default="", name=TOPOLOGY)
    devices: str = msgspec.field(default="", name=DEVICES)
    readings: str = msgspec.field(default="", name=ANNOTATION)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str = ""
    namespace: str = ""
    annotations: _Annotations = _Annotations()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class NodeView(msgspec.Struct, frozen=True):
    """A Node, or its metrics."""

    metadata: _Metadata


class PodView(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_NODES = Resource("", "v1", "nodes", "Node", False, NodeView)
_PODS = Resource("", "v1", "pods", "Pod", True, PodView)
_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, NodeView)


class ClusterView(msgspec.Struct, frozen=True):
    """What a cluster reports of its GPUs."""

    gpus: tuple[ClusterGpu, ...]
    slices: tuple[ClusterSlice, ...]
    problems: tuple[str, ...] = ()
    """Annotations that cannot be read."""


async def read_cluster(client: Client, nodes: Sequence[str] = ()) -> ClusterView:
    """Read nodes (all, or those named), pods, and metrics where they are served."""
    found = (await client.list(_NODES)).items
    pods = (await client.list(_PODS, field_selector="spec.nodeName!=")).items
    try:
        metrics = (await client.list(_METRICS)).items
    except KubeError:
        metrics = []
    wanted = [each for each in found if not nodes or each.metadata.name in nodes]
    return build_view(wanted, pods, metrics)


def build_view(
    nodes: Sequence[NodeView], pods: Sequence[PodView], metrics: Sequence[NodeView] = ()
) -> ClusterView:
    """The GPUs of nodes, by node and index. Pure."""
    readings = {
        each.metadata.name: parse_readings(each.metadata.annotations.readings) for each in metrics
    }
    held = _holders_by_node(pods)
    gpus: list[ClusterGpu] = []
    slices: list[ClusterSlice] = []
    problems: list[str] = []
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        name, text = node.metadata.name, node.metadata.annotations.topology
        if not text:
            continue
        topology = parse_topology(text)
        if isinstance(topology, InvalidAnnotation):
            problems.append(f"node {name}: {topology}")
            continue
        measured = {each.index: each for each in readings.get(name, ())}
        for index, gpu in enumerate(topology.gpus):
            holders = [each for each in held.get(name, ()) if each[1].index == index]
            reading = measured.get(index, GpuReading(index))
            gpus.append(_describe_gpu(name, index, gpu, topology, holders, reading))
            slices += _list_slices(name, index, gpu, topology, holders, reading)
    return ClusterView(tuple(gpus), tuple(slices), tuple(problems))


_Held = tuple[str, DeviceAssignment]


def _holders_by_node(pods: Sequence[PodView]) -> Mapping[str, list[_Held]]:
    held: dict[str, list[_Held]] = {}
    for pod in pods:
        if pod.status.phase in ("Succeeded", "Failed") or not pod.metadata.annotations.devices:
            continue
        devices = parse_devices(pod.metadata.annotations.devices)
        if not isinstance(devices, InvalidAnnotation):
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            held.setdefault(pod.spec.node_name, []).extend((key, each) for each in devices)
    return held


def _describe_gpu(
    node: str,
    index: int,
    gpu: Gpu,
    topology: Topology,
    holders: Sequence[_Held],
    reading: GpuReading,
) -> ClusterGpu:
    return ClusterGpu(
        node,
        index,
        gpu.uuid,
        topology.product if gpu.product is None else gpu.product,
        topology.memory if gpu.memory is None else gpu.memory,
        gpu.healthy,
        gpu.reason,
        gpu.mig_enabled,
        tuple(f"{each.profile}@{each.start}" for each in gpu.instances),
        tuple(sorted({key for key, _ in holders})),
        reading.utilisation,
        reading.memory,
        reading.power,
        reading.temperature,
    )


def _list_slices(
    node: str,
    index: int,
    gpu: Gpu,
    topology: Topology,
    holders: Sequence[_Held],
    reading: GpuReading,
) -> list[ClusterSlice]:
    owners = {(each.profile, each.start): key for key, each in holders if each.profile}
    measured = {(each.profile, each.start): each for each in reading.instances}
    geometry = topology.mig if gpu.mig is None else gpu.mig
    found: list[ClusterSlice] = []
    for each in gpu.instances:
        place = (each.profile, each.start)
        owner = owners.pop(place, "")
        usage = measured.get(place, InstanceReading(each.profile))
        found.append(
            ClusterSlice(
                node,
                index,
                each.profile,
                each.start,
                each.uuid,
                "Allocated" if owner else "Available",
                owner,
                _memory_of(geometry, each.profile),
                usage.utilisation,
                usage.memory,
            )
        )
    found += [
        ClusterSlice(
            node, index, profile, start, "", "Creating", key, _memory_of(geometry, profile)
        )
        for (profile, start), key in sorted(owners.items(), key=lambda item: item[0][1])
    ]
    found += [
        ClusterSlice(node, index, str(each).partition(":")[2], None, "", "Shared", key)
        for key, each in holders
        if not each.profile and not each.is_whole
    ]
    return found


def _memory_of(geometry: str, profile: str) -> int | None:
    known = geometry_named(geometry)
    found = None if known is None else known.profile(profile)
    return None if found is None or not found.memory else found.memory
