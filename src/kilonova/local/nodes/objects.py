"""What a simulated node writes: its Node and Lease, and the statuses of its pods. Pure."""

import math
from collections.abc import Sequence
from datetime import datetime

import msgspec

from kilonova import __version__
from kilonova.api.gpus import DEVICES, TOPOLOGY, Assignment, Unreadable, print_devices, read_devices
from kilonova.api.grove.names import RELEASED, STARTUP_CONTAINER
from kilonova.api.json import JsonObject
from kilonova.api.quantity import from_json
from kilonova.api.times import micro_time, rfc3339
from kilonova.local.controllers.objects import Container, Pod
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


def restarts(pod: Pod) -> int:
    """How often a pod's containers have been started again."""
    return max((each.restart_count for each in pod.status.container_statuses), default=0)


def is_of_a_daemon_set(pod: Pod) -> bool:
    """Whether a drain leaves a pod alone."""
    return any(each.kind == "DaemonSet" for each in pod.metadata.owner_references)


def gpus(pod: Pod) -> int:
    """How many GPUs a pod's containers have."""
    limits = (each.resources.limits.get(GPU_RESOURCE, 0) for each in pod.spec.containers)
    return sum(from_json(each).value for each in limits)


def given_gpus(pod: Pod) -> tuple[Assignment, ...]:
    """The devices that its scheduler gave a pod, if it said which."""
    found = read_devices(pod.metadata.annotations.get(DEVICES, ""))
    return () if isinstance(found, Unreadable) else found


def is_held(pod: Pod) -> bool:
    """Whether its startup container waits for other cliques."""
    held = any(each.name == STARTUP_CONTAINER for each in pod.spec.init_containers)
    return held and not pod.metadata.annotations.get(RELEASED)


def is_initializing(pod: Pod) -> bool:
    """Whether its status says that its init containers have not all ended."""
    found = pod.condition("Initialized")
    return pod.status.phase == "Pending" and found is not None and found.status == "False"


def started_at(pod: Pod) -> str | None:
    """Since when a pod's containers run, this time."""
    running = (each.state.running for each in pod.status.container_statuses)
    return next((each.started_at for each in running if each is not None), None)


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


def running_status(
    pod: Pod, node: int, address: str, now: datetime, exit_code: int | None = None
) -> JsonObject:
    """All containers run and are ready: for the first time, or again after an exit."""
    moment = rfc3339(now)
    up = _up(moment)
    count, last = 0, {}
    if exit_code is not None:
        count = restarts(pod) + 1
        last = {"terminated": _terminated(exit_code, started_at(pod) or moment, moment)}
    return {
        "phase": "Running",
        **_addresses(node, address),
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(pod, moment, ready=True),
        "initContainerStatuses": _passed(pod, pod.spec.init_containers, moment) or None,
        "containerStatuses": [
            _container_status(pod, each, up, count, last) for each in pod.spec.containers
        ],
    }


def initializing_status(pod: Pod, node: int, address: str, now: datetime) -> JsonObject:
    """Its startup container runs, and all that come after it wait."""
    moment = rfc3339(now)
    inits = pod.spec.init_containers
    place = next(i for i, each in enumerate(inits) if each.name == STARTUP_CONTAINER)
    up: JsonObject = {**_up(moment), "ready": False}
    wait: JsonObject = {
        "state": {"waiting": {"reason": "PodInitializing"}},
        "ready": False,
        "started": False,
    }
    return {
        "phase": "Pending",
        **_addresses(node, address),
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(
            pod, moment, ready=False, initialized=False, reason="ContainersNotReady"
        ),
        "initContainerStatuses": [
            *_passed(pod, inits[:place], moment),
            _container_status(pod, inits[place], up, 0, {}),
            *(_container_status(pod, each, wait, 0, {}) for each in inits[place + 1 :]),
        ],
        "containerStatuses": [
            _container_status(pod, each, wait, 0, {}) for each in pod.spec.containers
        ],
    }


def ended_status(pod: Pod, exit_code: int, now: datetime, reason: str, message: str) -> JsonObject:
    """All containers have ended, for good."""
    moment = rfc3339(now)
    terminated = _terminated(exit_code, started_at(pod) or moment, moment)
    state: JsonObject = {"state": {"terminated": terminated}, "ready": False, "started": False}
    succeeded = exit_code == 0
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "reason": reason or None,
        "message": message or None,
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(
            pod, moment, ready=False, reason="PodCompleted" if succeeded else "PodFailed"
        ),
        "containerStatuses": [
            _container_status(pod, each, state, restarts(pod), {}) for each in pod.spec.containers
        ],
    }


def pulling_status(pod: Pod, node: int, now: datetime, reason: str) -> JsonObject:
    """Its images cannot be pulled: containers wait."""
    moment = rfc3339(now)
    message = "simulated registry does not answer"
    state: JsonObject = {
        "state": {"waiting": {"reason": reason, "message": message}},
        "ready": False,
        "started": False,
    }
    return {
        "phase": "Pending",
        "hostIP": host_address(node),
        "hostIPs": [{"ip": host_address(node)}],
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(pod, moment, ready=False, reason="ContainersNotReady"),
        "containerStatuses": [
            _container_status(pod, each, state, 0, {}) for each in pod.spec.containers
        ],
    }


def refused_status(pod: Pod, available: int, now: datetime) -> JsonObject:
    """The node has fewer GPUs than it was thought to have, or others."""
    given = given_gpus(pod)
    problem = (
        f"devices {print_devices(given)} being lost or in use"
        if given
        else f"requested number of devices unavailable for {GPU_RESOURCE}. "
        f"Requested: {gpus(pod)}, Available: {available}"
    )
    return {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: Allocate failed due to {problem}, which is unexpected",
        "startTime": rfc3339(now),
    }


def gpu_state(shape: NodeShape, lost: frozenset[int]) -> JsonObject:
    """What a node tells when it loses GPUs, or has them again: of all that it has, in one write."""
    topology = topology_annotation(shape.group.gpu, lost)
    annotations = {} if topology is None else {TOPOLOGY: topology}
    return {
        "metadata": {"annotations": annotations},
        "status": {"allocatable": _allocatable(shape, lost)},
    }


def pod_conditions(
    pod: Pod, moment: str, *, ready: bool, initialized: bool = True, reason: str = ""
) -> list[JsonObject]:
    """The conditions of a pod that was placed; `reason` is why it is not ready.

    Since when it has its place stays as it was, so that one sees how long it took to start.
    """
    states = {
        "PodReadyToStartContainers": True,
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    reasons = {"Initialized": "ContainersNotInitialized"}
    scheduled = pod.condition("PodScheduled")
    was = scheduled is not None and scheduled.status == "True" and scheduled.last_transition_time
    placed = was or moment
    return [
        {
            "type": kind,
            "status": "True" if state else "False",
            "lastProbeTime": None,
            "lastTransitionTime": placed if kind == "PodScheduled" else moment,
            **({"reason": reasons.get(kind, reason)} if reason and not state else {}),
        }
        for kind, state in states.items()
    ]


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


def _addresses(node: int, pod: str) -> JsonObject:
    host = host_address(node)
    return {
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": pod,
        "podIPs": [{"ip": pod}],
    }


def _up(since: str) -> JsonObject:
    return {"state": {"running": {"startedAt": since}}, "ready": True, "started": True}


def _passed(pod: Pod, inits: Sequence[Container], moment: str) -> list[JsonObject]:
    """Init containers whose turn is over: they have ended, but for those that go on beside."""
    up = _up(moment)
    done: JsonObject = {
        "state": {"terminated": _terminated(0, moment, moment)},
        "ready": True,
        "started": False,
    }
    return [
        _container_status(pod, each, up if each.restart_policy == "Always" else done, 0, {})
        for each in inits
    ]


def _terminated(exit_code: int, started: str, finished: str) -> JsonObject:
    return {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": started,
        "finishedAt": finished,
    }


def _container_status(
    pod: Pod, container: Container, state: JsonObject, count: int, last: JsonObject
) -> JsonObject:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": f"sim://{pod.metadata.uid}/{container.name}",
        "restartCount": count,
        "lastState": last,
        **state,
    }
