"""What a simulated node writes of itself: its Node and Lease. Pure."""

import math
from datetime import datetime

import msgspec

from kilonova import __version__
from kilonova.api.gpus import TOPOLOGY
from kilonova.api.json import JsonObject
from kilonova.api.times import micro_time, rfc3339
from kilonova.local.nodes.fleet import NodeShape
from kilonova.local.nodes.topologies import feature_labels, topology_annotation

NODE_KIND = "kilonova.dev/node-kind"
BLOCK = "kilonova.dev/block"
RACK = "kilonova.dev/rack"
GPU_RESOURCE = "nvidia.com/gpu"
NVLINK_DOMAIN = "nvidia.com/gpu.clique"
MOST_NODES = 128 << 8
MOST_PODS = 254
"""As many as there are addresses for: a /24 for each node."""
_LEASE_SECONDS = 40


def node_object(shape: NodeShape, now: datetime) -> JsonObject:
    """The Node as it registers: ready, with its place, its machine and its GPUs."""
    group = shape.group
    spec: JsonObject = {"podCIDR": _network(shape.number), "providerID": f"sim://{shape.name}"}
    if group.taints:
        spec["taints"] = msgspec.to_builtins(group.taints)
    metadata: JsonObject = {"name": shape.name, "labels": node_labels(shape)}
    topology = topology_annotation(group.gpu, frozenset())
    if topology is not None:
        metadata["annotations"] = {TOPOLOGY: topology}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": node_status(shape, now),
    }


def node_labels(shape: NodeShape) -> dict[str, str]:
    """The node's place and machine, and what its group says."""
    return {
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": shape.zone,
        BLOCK: shape.block,
        RACK: shape.rack,
        NODE_KIND: "sim",
        **_gpu_labels(shape),
        **shape.group.labels,
    }


def node_status(
    shape: NodeShape, now: datetime, lost_gpus: frozenset[int] = frozenset()
) -> JsonObject:
    """What the machine has, and that it is well, but for GPUs that are lost."""
    return {
        "capacity": _capacity(shape),
        "allocatable": _allocatable(shape, lost_gpus),
        "conditions": node_conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": host_address(shape.number)},
            {"type": "Hostname", "address": shape.name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": f"sim://{__version__}",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": f"v{__version__}-sim",
            "machineID": shape.name,
            "operatingSystem": "linux",
            "osImage": "Kilonova simulated node",
            "systemUUID": shape.name,
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }


def node_conditions(now: datetime) -> list[JsonObject]:
    """The conditions of a node that is well."""
    moment = rfc3339(now)
    pressures = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    rows = [(kind, "False", reason, text) for kind, reason, text in pressures]
    rows.append(("Ready", "True", "KubeletReady", "simulated node is ready"))
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": text,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason, text in rows
    ]


def lease_object(name: str, now: datetime, heartbeat: float) -> JsonObject:
    """The Lease that a node renews, once per `heartbeat` seconds, to say that it is alive."""
    return {
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": max(_LEASE_SECONDS, math.ceil(4 * heartbeat)),
            "renewTime": micro_time(now),
        },
    }


def gpu_state(shape: NodeShape, lost: frozenset[int]) -> JsonObject:
    """What a node tells when it loses GPUs, or has them again: of all that it has, in one write."""
    topology = topology_annotation(shape.group.gpu, lost)
    annotations = {} if topology is None else {TOPOLOGY: topology}
    return {
        "metadata": {"annotations": annotations},
        "status": {"allocatable": _allocatable(shape, lost)},
    }


def host_address(node: int) -> str:
    """A node's own address."""
    return f"10.0.{(node + 1) >> 8}.{(node + 1) & 255}"


def pod_address(node: int, number: int) -> str:
    """The address of a pod on a node; `number` is between 1 and `MOST_PODS`."""
    return f"10.{128 + (node >> 8)}.{node & 255}.{number}"


def _gpu_labels(shape: NodeShape) -> dict[str, str]:
    """What feature discovery tells of a node's GPUs, and of the NVLink domain that it is in."""
    gpu = shape.group.gpu
    if gpu is None:
        return {}
    domain = {NVLINK_DOMAIN: f"{shape.rack}.0"} if gpu.nvlink == "rack" else {}
    return {**feature_labels(gpu), **domain}


def _capacity(shape: NodeShape) -> dict[str, str]:
    group = shape.group
    capacity = {
        "cpu": str(group.cpu),
        "memory": str(group.memory),
        "ephemeral-storage": str(group.storage),
        "pods": str(group.pods),
    }
    if group.gpu is not None:
        capacity[GPU_RESOURCE] = str(group.gpu.count)
    return capacity


def _allocatable(shape: NodeShape, lost: frozenset[int]) -> dict[str, str]:
    """What pods may ask for: all but the GPUs that are lost."""
    amounts, gpu = _capacity(shape), shape.group.gpu
    if gpu is not None:
        amounts[GPU_RESOURCE] = str(gpu.count - sum(index < gpu.count for index in lost))
    return amounts


def _network(node: int) -> str:
    return f"10.{128 + (node >> 8)}.{node & 255}.0/24"
