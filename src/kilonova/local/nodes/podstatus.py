"""What a simulated node reads of its pods, and the statuses that it writes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kilonova.api.gpus import DEVICES, Assignment, Unreadable, print_devices, read_devices
from kilonova.api.grove.names import RELEASED, STARTUP_CONTAINER
from kilonova.api.json import JsonObject
from kilonova.api.quantity import from_json
from kilonova.api.times import rfc3339
from kilonova.local.controllers.objects import Container, ContainerState, Pod, Terminated
from kilonova.local.nodes.objects import GPU_RESOURCE, host_address

BACK_OFF = "CrashLoopBackOff"
REFUSED = "UnexpectedAdmissionError"
UNHEALTHY_DEVICES = "UnhealthyDevices"
"""Why a pod whose containers wait for lost devices is as it is."""


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


def reported_gpus(pod: Pod) -> tuple[Assignment, ...]:
    """The devices that a pod's status says it has: it does while some of them are lost."""
    return tuple(
        Assignment(int(device.id))
        for status in pod.status.container_statuses
        for each in status.allocated_resources_status or ()
        if each.name == GPU_RESOURCE
        for device in each.resources or ()
        if device.id.isdecimal()
    )


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


def is_backing_off(pod: Pod) -> bool:
    """Whether its containers have ended, and wait to be started again."""
    return pod.status.phase == "Running" and any(
        each.last_state.terminated is not None and each.state == ContainerState()
        for each in pod.status.container_statuses
    )


def end_of(pod: Pod, exit_code: int, now: datetime) -> Terminated:
    """How its containers end now."""
    moment = rfc3339(now)
    reason = "Error" if exit_code else "Completed"
    return Terminated(exit_code, reason, started_at(pod) or moment, moment)


def last_end(pod: Pod) -> Terminated | None:
    """How its containers ended the last time."""
    ends = (each.last_state.terminated for each in pod.status.container_statuses)
    return next((each for each in ends if each is not None), None)


def running_status(
    pod: Pod, node: int, address: str, now: datetime, end: Terminated | None = None
) -> JsonObject:
    """All containers run and are ready: for the first time, or again after an end."""
    moment = rfc3339(now)
    up = _up(moment)
    count, last = (0, {}) if end is None else (restarts(pod) + 1, _state_of(end))
    return {
        "phase": "Running",
        **({} if end is None else {"reason": None, "message": None}),
        **_addresses(node, address),
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(pod, moment, ready=True),
        "initContainerStatuses": _passed(pod, pod.spec.init_containers, moment) or None,
        "containerStatuses": [
            _container_status(pod, each, up, count, last) for each in pod.spec.containers
        ],
    }


def has_new_ephemeral(pod: Pod) -> bool:
    """Whether somebody added a container (`kubectl debug`) of which its status says nothing."""
    return len(pod.spec.ephemeral_containers) > len(pod.status.ephemeral_container_statuses)


def ephemeral_status(pod: Pod, now: datetime) -> JsonObject:
    """Containers that were added run, like the others, from when they were first seen."""
    since = {
        each.name: each.state.running.started_at
        for each in pod.status.ephemeral_container_statuses
        if each.state.running is not None
    }
    return {
        "ephemeralContainerStatuses": [
            _container_status(
                pod, each, {**_up(since.get(each.name) or rfc3339(now)), "ready": False}, 0, {}
            )
            for each in pod.spec.ephemeral_containers
        ]
    }


@dataclass(frozen=True, slots=True)
class Devices:
    """The GPUs that a pod has, and those of them that are lost."""

    held: Sequence[int] = ()
    lost: Sequence[int] = ()

    @property
    def problem(self) -> str:
        """What is wrong with them; empty if nothing is."""
        if not self.lost:
            return ""
        return f"unhealthy devices of {GPU_RESOURCE}: {', '.join(map(str, self.lost))}"


NO_DEVICES = Devices()


def backing_off_status(
    pod: Pod, end: Terminated, now: datetime, delay: str, devices: Devices = NO_DEVICES
) -> JsonObject:
    """All containers have ended, and are started again after a delay."""

    def waits(container: Container) -> JsonObject:
        message = f"back-off {delay} restarting failed container={container.name} "
        return {
            "state": {"waiting": {"reason": BACK_OFF, "message": f"{message}pod={full_name(pod)}"}},
            "ready": False,
            "started": False,
        }

    health = _device_health(pod, devices)
    told = {"reason": UNHEALTHY_DEVICES, "message": devices.problem} if devices.lost else {}
    return {
        "phase": "Running",
        **told,
        "conditions": pod_conditions(pod, rfc3339(now), ready=False, reason="ContainersNotReady"),
        "containerStatuses": [
            {
                **_container_status(pod, each, waits(each), restarts(pod), _state_of(end)),
                **health.get(each.name, {}),
            }
            for each in pod.spec.containers
        ],
    }


def full_name(pod: Pod) -> str:
    """As kubelets name it in messages: `name_namespace(uid)`."""
    known = pod.metadata
    return f"{known.name}_{known.namespace}({known.uid})"


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


def ended_status(
    pod: Pod,
    exit_code: int,
    now: datetime,
    reason: str,
    message: str,
    devices: Devices = NO_DEVICES,
) -> JsonObject:
    """All containers have ended, for good."""
    moment, health = rfc3339(now), _device_health(pod, devices)
    ended = _state_of(end_of(pod, exit_code, now))
    state: JsonObject = {"state": ended, "ready": False, "started": False}
    succeeded = exit_code == 0
    added = [_container_status(pod, each, state, 0, {}) for each in pod.spec.ephemeral_containers]
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "reason": reason or None,
        "message": message or None,
        "startTime": pod.status.start_time or moment,
        "conditions": pod_conditions(
            pod, moment, ready=False, reason="PodCompleted" if succeeded else "PodFailed"
        ),
        "containerStatuses": [
            {
                **_container_status(pod, each, state, restarts(pod), {}),
                **health.get(each.name, {}),
            }
            for each in pod.spec.containers
        ],
        **({"ephemeralContainerStatuses": added} if added else {}),
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
    return {
        "phase": "Failed",
        "reason": REFUSED,
        "message": refusal(pod, available),
        "startTime": rfc3339(now),
    }


def refusal(pod: Pod, available: int) -> str:
    """Why a node does not start the containers of a pod, in a kubelet's words."""
    given = given_gpus(pod)
    problem = (
        f"devices {print_devices(given)} being lost or in use"
        if given
        else f"requested number of devices unavailable for {GPU_RESOURCE}. "
        f"Requested: {gpus(pod)}, Available: {available}"
    )
    return f"Pod was rejected: Allocate failed due to {problem}, which is unexpected"


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
        "state": _state_of(Terminated(0, "Completed", moment, moment)),
        "ready": True,
        "started": False,
    }
    return [
        _container_status(pod, each, up if each.restart_policy == "Always" else done, 0, {})
        for each in inits
    ]


def _device_health(pod: Pod, devices: Devices) -> dict[str, JsonObject]:
    """What the status of each container says of its devices; nothing while all are healthy.

    Which container has which of a pod's devices is not kept: they have them in their order.
    """
    if not devices.lost:
        return {}
    left, found = list(devices.held), dict[str, JsonObject]()
    for container in pod.spec.containers:
        count = from_json(container.resources.limits.get(GPU_RESOURCE, 0)).value
        own, left = left[:count], left[count:]
        if container is pod.spec.containers[-1]:
            own += left  # given by other means than a limit
        if own:
            health = [
                {
                    "resourceID": str(gpu),
                    "health": "Unhealthy" if gpu in devices.lost else "Healthy",
                }
                for gpu in own
            ]
            found[container.name] = {
                "allocatedResourcesStatus": [{"name": GPU_RESOURCE, "resources": health}]
            }
    return found


def _state_of(end: Terminated) -> JsonObject:
    return {"terminated": msgspec.to_builtins(end)}


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
