"""What is said of this machine in the API: its Node and Lease. Pure."""

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv4Network

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.controllers.nodes.imagetaint import TAINT
from kilonova.local.documents import KUBERNETES
from kilonova.local.nodes.objects import NODE_KIND
from kilonova.local.nodes.process.kubelet.devices import GPU_RESOURCE
from kilonova.local.nodes.process.kubelet.machinefacts import MachineFacts, Pressures
from kilonova.local.nodes.process.kubelet.means import HOST_ADDRESS
from kilonova.local.nodes.process.kubelet.runs import RUNTIME

MOST_PODS = 110
_KUBELET_PORT = 10250


def capacity(facts: MachineFacts) -> dict[str, str]:
    """What the machine has; all of it is for pods."""
    amounts = {
        "cpu": str(facts.cpus),
        "memory": f"{facts.memory // 1024}Ki",
        "ephemeral-storage": f"{facts.storage // 1024}Ki",
        "pods": str(MOST_PODS),
    }
    return {**amounts, GPU_RESOURCE: str(facts.gpus)} if facts.gpus else amounts


def node_labels(facts: MachineFacts) -> dict[str, str]:
    """What pods choose this node by."""
    return {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": facts.architecture,
        NODE_KIND: "process",
    }


def node_object(name: str, labels: Mapping[str, str], network: IPv4Network) -> JsonObject:
    """The Node as it is made; its status follows."""
    return {
        "metadata": {"name": name, "labels": {**labels}},
        "spec": {
            "podCIDR": str(network),
            "podCIDRs": [str(network)],
            "providerID": f"{RUNTIME}://{name}",
            "taints": [
                # A pod that leaves its command to an image cannot run here …
                {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect},
                # … and one that can, and does not ask for this node, prefers any other.
                {"key": NODE_KIND, "value": "process", "effect": "PreferNoSchedule"},
            ],
        },
    }


def node_status(facts: MachineFacts, conditions: list[JsonObject]) -> JsonObject:
    """The whole status of the Node."""
    amounts = capacity(facts)
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": HOST_ADDRESS},
            {"type": "Hostname", "address": facts.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
        "nodeInfo": {
            "architecture": facts.architecture,
            "bootID": facts.boot_id,
            "containerRuntimeVersion": f"{RUNTIME}://{__version__}",
            "kernelVersion": facts.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": f"{KUBERNETES}+kilonova.{__version__}",
            "machineID": facts.machine_id,
            "operatingSystem": "linux",
            "osImage": facts.system,
            "systemUUID": facts.machine_id,
        },
    }


def node_conditions(
    pressures: Pressures, now: datetime, before: list[JsonObject], *, leaving: bool
) -> list[JsonObject]:
    """How the node is doing; a condition that is as it was keeps the time since when."""
    known = {each.get("type"): each for each in before}
    moment = rfc3339(now)
    conditions: list[JsonObject] = []
    for kind, holds, reason, message in _answers(pressures, leaving=leaving):
        status = "True" if holds else "False"
        last = known.get(kind, {})
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


def _answers(pressures: Pressures, *, leaving: bool) -> list[tuple[str, bool, str, str]]:
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
            if leaving
            else ("Ready", True, "KubeletReady", "kubelet is posting ready status")
        ),
    ]
