"""What a simulated node writes: its Node and Lease, and the statuses of its pods. Pure."""

from datetime import datetime

import msgspec

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.local.nodes.fleet import NodeShape
from kilonova.local.quantity import parse
from kilonova.local.times import micro_time, rfc3339

NODE_KIND = "kilonova.dev/node-kind"
BLOCK = "kilonova.dev/block"
RACK = "kilonova.dev/rack"
GPU_RESOURCE = "nvidia.com/gpu"
LEASE_SECONDS = 40


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Container(msgspec.Struct, frozen=True):
    name: str
    image: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    restart_count: int = 0


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None


class SimPod(msgspec.Struct, frozen=True):
    """The fields of a pod that a simulated node looks at."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def restarts(self) -> int:
        """How often its containers have been started again."""
        return max((each.restart_count for each in self.status.container_statuses), default=0)


def node_object(shape: NodeShape, now: datetime) -> JsonObject:
    """The Node as it registers: ready, with its place, its machine and its GPUs."""
    group = shape.group
    labels = {
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": shape.zone,
        BLOCK: shape.block,
        RACK: shape.rack,
        NODE_KIND: "sim",
        **_gpu_labels(shape),
        **group.labels,
    }
    spec: JsonObject = {"podCIDR": _network(shape.number), "providerID": f"sim://{shape.name}"}
    if group.taints:
        spec["taints"] = list(group.taints)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": shape.name, "labels": labels},
        "spec": spec,
        "status": node_status(shape, now, ready=True),
    }


def node_status(shape: NodeShape, now: datetime, *, ready: bool) -> JsonObject:
    group = shape.group
    capacity = {
        "cpu": group.cpu,
        "memory": group.memory,
        "ephemeral-storage": group.storage,
        "pods": str(group.pods),
    }
    if group.gpu is not None:
        capacity[GPU_RESOURCE] = str(group.gpu.count)
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": node_conditions(now, ready=ready),
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


def node_conditions(now: datetime, *, ready: bool) -> list[JsonObject]:
    """The conditions of a node that is well, or that is out."""
    moment = rfc3339(now)
    pressures = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    rows = [(kind, "False", reason, text) for kind, reason, text in pressures]
    rows.append(
        ("Ready", "True", "KubeletReady", "simulated node is ready")
        if ready
        else ("Ready", "False", "SimulatedOutage", "simulated node is out")
    )
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


def lease_object(name: str, now: datetime) -> JsonObject:
    """The Lease that a node renews to say that it is alive."""
    return {
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_time(now),
        },
    }


def running_status(
    pod: SimPod, node: int, address: str, now: datetime, restarts: int
) -> JsonObject:
    """All containers run and are ready."""
    moment = rfc3339(now)
    done = {
        "state": {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": moment,
                "finishedAt": moment,
            }
        },
        "ready": True,
        "started": False,
    }
    up = {"state": {"running": {"startedAt": moment}}, "ready": True, "started": True}
    return {
        "phase": "Running",
        "hostIP": host_address(node),
        "hostIPs": [{"ip": host_address(node)}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(moment, ready=True),
        "initContainerStatuses": [
            _container_status(pod, each, done, 0) for each in pod.spec.init_containers
        ]
        or None,
        "containerStatuses": [
            _container_status(pod, each, up, restarts) for each in pod.spec.containers
        ],
    }


def ended_status(
    pod: SimPod, exit_code: int, now: datetime, reason: str, message: str
) -> JsonObject:
    """All containers have ended, for good."""
    moment = rfc3339(now)
    terminated = {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": pod.status.start_time or moment,
        "finishedAt": moment,
    }
    state: JsonObject = {"state": {"terminated": terminated}, "ready": False, "started": False}
    succeeded = exit_code == 0
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "reason": reason or None,
        "message": message or None,
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(
            moment, ready=False, reason="PodCompleted" if succeeded else "PodFailed"
        ),
        "containerStatuses": [
            _container_status(pod, each, state, 0) for each in pod.spec.containers
        ],
    }


def pod_conditions(moment: str, *, ready: bool, reason: str = "") -> list[JsonObject]:
    """The conditions of a pod that was placed and started."""
    states = {
        "PodReadyToStartContainers": True,
        "Initialized": True,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    return [
        {
            "type": kind,
            "status": "True" if state else "False",
            "lastProbeTime": None,
            "lastTransitionTime": moment,
            **({"reason": reason} if reason and not state else {}),
        }
        for kind, state in states.items()
    ]


def host_address(node: int) -> str:
    return f"10.0.{node >> 8 & 255}.{node & 255}"


def pod_address(node: int, number: int) -> str:
    return f"10.{64 + (node >> 8 & 127)}.{node & 255}.{1 + number % 254}"


def _network(node: int) -> str:
    return f"10.{64 + (node >> 8 & 127)}.{node & 255}.0/24"


def _gpu_labels(shape: NodeShape) -> dict[str, str]:
    gpu = shape.group.gpu
    if gpu is None:
        return {}
    mebibytes = parse(gpu.memory).value >> 20
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu.model,
        "nvidia.com/gpu.count": str(gpu.count),
        "nvidia.com/gpu.memory": str(mebibytes),
    }


def _container_status(
    pod: SimPod, container: Container, state: JsonObject, restarts: int
) -> JsonObject:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": f"sim://{pod.metadata.uid}/{container.name}",
        "restartCount": restarts,
        "lastState": {},
        **state,
    }
