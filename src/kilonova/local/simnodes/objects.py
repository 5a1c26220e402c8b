"""The Node objects of simulated nodes. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova import __version__
from kilonova.api.gpu.annotations import TOPOLOGY, DeviceAssignment
from kilonova.api.json import JsonObject
from kilonova.api.nodes.kinds import NODE_KIND_LABEL, SIMULATED_NODE
from kilonova.api.nodes.topology_labels import BLOCK, RACK, ZONE
from kilonova.api.times import format_rfc3339
from kilonova.catalog.gpu_features import NVLINK_DOMAIN
from kilonova.catalog.prices import NODE_PRICE_KEY
from kilonova.catalog.resource_names import GPU
from kilonova.local.simnodes.fleet.model import FleetNode
from kilonova.local.simnodes.gpus.topology import build_feature_labels, build_topology_annotation
from kilonova.local.simnodes.lifecycle.node_objects import (
    BOOTING,
    FLEET_ANNOTATION,
    MACHINE_ANNOTATION,
    MACHINE_TYPE_LABEL,
    MARKET_LABEL,
    NUMBER_ANNOTATION,
)

MAX_NODES = 128 << 8
MAX_PODS = 254
"""The number of addresses of a node: a /24 each."""


def build_node(node: FleetNode, description: str, now: datetime) -> JsonObject:
    """The Node of a fleet at registration, with its topology labels, machine and GPUs.

    It is ready, unless it has to boot.
    """
    group = node.group
    spec: JsonObject = {"podCIDR": pod_cidr(node.number), "providerID": f"sim://{node.name}"}
    if group.taints:
        spec["taints"] = msgspec.to_builtins(group.taints)
    annotations = build_fleet_annotations(node, description)
    topology = None if group.boot else build_topology_annotation(node.name, group.gpu, frozenset())
    if topology is not None:
        annotations[TOPOLOGY] = topology
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": build_node_labels(node),
            "annotations": annotations,
        },
        "spec": spec,
        "status": build_booting_status(now) if group.boot else build_node_status(node, now),
    }


def build_fleet_annotations(node: FleetNode, description: str) -> dict[str, str]:
    """The annotations that describe a node of a fleet."""
    group = node.group
    price = {} if group.price is None else {NODE_PRICE_KEY: f"{group.price:g}"}
    return {
        FLEET_ANNOTATION: group.name,
        MACHINE_ANNOTATION: description,
        NUMBER_ANNOTATION: str(node.number),
        **price,
    }


def build_node_labels(node: FleetNode) -> dict[str, str]:
    """The labels of topology, machine and group."""
    group = node.group
    optional = {
        BLOCK: node.block,
        RACK: node.rack,
        MACHINE_TYPE_LABEL: group.machine,
        MARKET_LABEL: group.market,
    }
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ZONE: node.zone,
        NODE_KIND_LABEL: SIMULATED_NODE,
        **{name: value for name, value in optional.items() if value},
        **_build_gpu_labels(node),
        **group.labels,
    }


def build_node_status(
    node: FleetNode, now: datetime, lost_gpus: frozenset[int] = frozenset()
) -> JsonObject:
    """The node's status: capacity, and healthy conditions; lost GPUs are not allocatable."""
    return {
        "capacity": _build_capacity(node),
        "allocatable": _build_allocatable(node, lost_gpus),
        "conditions": build_node_conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": node_address(node.number)},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": f"sim://{__version__}",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": f"v{__version__}-sim",
            "machineID": node.name,
            "operatingSystem": "linux",
            "osImage": "Kilonova simulated node",
            "systemUUID": node.name,
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }


def build_booting_status(now: datetime) -> JsonObject:
    """The status of a machine that has been launched and is not ready yet."""
    return build_not_ready_status(BOOTING, "simulated machine is booting", now)


def build_not_ready_status(reason: str, message: str, now: datetime) -> JsonObject:
    """The status of a machine that is not there, and why."""
    moment = format_rfc3339(now)
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
    return {"conditions": [ready]}


def build_node_conditions(now: datetime) -> list[JsonObject]:
    """The conditions of a healthy node."""
    moment = format_rfc3339(now)
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


def build_gpu_patch(
    node: FleetNode, lost: frozenset[int], instances: Iterable[DeviceAssignment] = ()
) -> JsonObject:
    """The patch of a node whose lost GPUs changed: annotation and status in one write."""
    topology = build_topology_annotation(node.name, node.group.gpu, lost, instances)
    annotations = {} if topology is None else {TOPOLOGY: topology}
    return {
        "metadata": {"annotations": annotations},
        "status": {"allocatable": _build_allocatable(node, lost)},
    }


def node_address(node: int) -> str:
    """The node's own address."""
    return f"10.0.{(node + 1) >> 8}.{(node + 1) & 255}"


def pod_address(node: int, number: int) -> str:
    """The address of a pod on a node; `number` is between 1 and `MAX_PODS`."""
    return f"10.{128 + (node >> 8)}.{node & 255}.{number}"


def _build_gpu_labels(node: FleetNode) -> dict[str, str]:
    """The labels of GPU feature discovery, and of the NVLink domain of the node."""
    gpu = node.group.gpu
    if gpu is None:
        return {}
    is_domain = gpu.nvlink == "rack" and node.rack
    domain = {NVLINK_DOMAIN: f"{node.rack}.0"} if is_domain else {}
    return {**build_feature_labels(gpu), **domain}


def _build_capacity(node: FleetNode) -> dict[str, str]:
    group = node.group
    capacity = {
        "cpu": str(group.cpu),
        "memory": str(group.memory),
        "ephemeral-storage": str(group.storage),
        "pods": str(group.pods),
    }
    if group.gpu is not None:
        capacity[GPU] = str(group.gpu.count)
    return capacity


def _build_allocatable(node: FleetNode, lost: frozenset[int]) -> dict[str, str]:
    """The allocatable resources: all but lost GPUs."""
    amounts, gpu = _build_capacity(node), node.group.gpu
    if gpu is not None:
        amounts[GPU] = str(gpu.count - sum(index < gpu.count for index in lost))
    return amounts


def pod_cidr(node: int) -> str:
    """The addresses of the pods of a node."""
    return f"10.{128 + (node >> 8)}.{node & 255}.0/24"
