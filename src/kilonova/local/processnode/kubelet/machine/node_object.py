"""The Node object of this machine. Pure."""

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv4Network

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.api.nodes.kinds import NODE_KIND_LABEL, PROCESS_NODE
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.version import KUBERNETES_VERSION
from kilonova.local.objects.image_taint import IMAGE_TAINT
from kilonova.local.processnode.kubelet.containers.runs import RUNTIME_NAME
from kilonova.local.processnode.kubelet.context import HOST_ADDRESS
from kilonova.local.processnode.kubelet.machine.info import MachineInfo, NodePressures

MAX_PODS = 110
_KUBELET_PORT = 10250


def build_capacity(machine: MachineInfo, devices: Mapping[str, int]) -> dict[str, str]:
    """The capacity of the machine with its GPUs; all of it is allocatable."""
    return {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory // 1024}Ki",
        "ephemeral-storage": f"{machine.storage // 1024}Ki",
        "pods": str(MAX_PODS),
        **{name: str(count) for name, count in devices.items()},
    }


def build_node_labels(machine: MachineInfo) -> dict[str, str]:
    """The labels of the Node."""
    return {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        NODE_KIND_LABEL: PROCESS_NODE,
    }


def build_node(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str], network: IPv4Network
) -> JsonObject:
    """The Node without its status."""
    return {
        "metadata": {"name": name, "labels": {**labels}, "annotations": {**annotations}},
        "spec": {
            "podCIDR": str(network),
            "podCIDRs": [str(network)],
            "providerID": f"{RUNTIME_NAME}://{name}",
            "taints": [
                # Pods whose command is in an image cannot run here …
                {"key": IMAGE_TAINT.key, "value": IMAGE_TAINT.value, "effect": IMAGE_TAINT.effect},
                # … and pods that can, without selecting this node, prefer other nodes.
                {"key": NODE_KIND_LABEL, "value": PROCESS_NODE, "effect": "PreferNoSchedule"},
            ],
        },
    }


def build_node_status(
    machine: MachineInfo, amounts: Mapping[str, str], conditions: list[JsonObject]
) -> JsonObject:
    """The whole status of the Node with this capacity."""
    return {
        "capacity": {**amounts},
        "allocatable": {**amounts},
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": HOST_ADDRESS},
            {"type": "Hostname", "address": machine.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
        "nodeInfo": {
            "architecture": machine.architecture,
            "bootID": machine.boot_id,
            "containerRuntimeVersion": f"{RUNTIME_NAME}://{__version__}",
            "kernelVersion": machine.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": f"{KUBERNETES_VERSION}+kilonova.{__version__}",
            "machineID": machine.machine_id,
            "operatingSystem": "linux",
            "osImage": machine.system,
            "systemUUID": machine.machine_id,
        },
    }


def build_node_conditions(
    pressures: NodePressures, now: datetime, before: list[JsonObject], *, shutting_down: bool
) -> list[JsonObject]:
    """The node's conditions; an unchanged condition keeps its lastTransitionTime."""
    previous = {each.get("type"): each for each in before}
    moment = format_rfc3339(now)
    conditions: list[JsonObject] = []
    for kind, holds, reason, message in _condition_rows(pressures, shutting_down=shutting_down):
        status = "True" if holds else "False"
        last = previous.get(kind, {})
        same = last.get("status") == status
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": last["lastTransitionTime"] if same else moment,
            }
        )
    return conditions


def _condition_rows(
    pressures: NodePressures, *, shutting_down: bool
) -> list[tuple[str, bool, str, str]]:
    return [
        (
            "MemoryPressure",
            pressures.memory,
            f"KubeletHas{'Insufficient' if pressures.memory else 'Sufficient'}Memory",
            f"kubelet has {'in' if pressures.memory else ''}sufficient memory available",
        ),
        (
            "DiskPressure",
            pressures.disk,
            f"KubeletHas{'' if pressures.disk else 'No'}DiskPressure",
            f"kubelet has {'' if pressures.disk else 'no '}disk pressure",
        ),
        (
            "PIDPressure",
            pressures.pids,
            f"KubeletHas{'Insufficient' if pressures.pids else 'Sufficient'}PID",
            f"kubelet has {'in' if pressures.pids else ''}sufficient PID available",
        ),
        (
            ("Ready", False, "KubeletNotReady", "node is shutting down")
            if shutting_down
            else ("Ready", True, "KubeletReady", "kubelet is posting ready status")
        ),
    ]
