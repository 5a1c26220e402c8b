"""The statuses that are written of pods on simulated nodes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment, format_devices
from kilonova.api.grove.names import STARTUP_CONTAINER
from kilonova.api.json import JsonObject
from kilonova.api.quantity import quantity_from_json
from kilonova.api.times import format_rfc3339
from kilonova.catalog.resource_names import GPU
from kilonova.local.objects.core import (
    Container,
    ContainerStateTerminated,
    Pod,
)
from kilonova.local.simnodes.gpus.claims import uses_claims
from kilonova.local.simnodes.objects import node_address
from kilonova.local.simnodes.pods.state import (
    assigned_gpus,
    full_name,
    requested_gpus,
    restart_count,
    started_at,
)

CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
CONTAINER_CREATING = "ContainerCreating"
UNHEALTHY_DEVICES = "UnhealthyDevices"
"""The reason of pods whose containers wait for lost devices."""


def build_termination(pod: Pod, exit_code: int, now: datetime) -> ContainerStateTerminated:
    """The terminated state of containers that end now."""
    moment = format_rfc3339(now)
    reason = "Error" if exit_code else "Completed"
    return ContainerStateTerminated(exit_code, reason, started_at(pod) or moment, moment)


def build_running_status(
    pod: Pod, node: int, address: str, now: datetime, end: ContainerStateTerminated | None = None
) -> JsonObject:
    """All containers run and are ready, after the first start or a restart."""
    moment = format_rfc3339(now)
    up = _running_state(moment)
    count, last = (0, {}) if end is None else (restart_count(pod) + 1, _terminated_state(end))
    return {
        "phase": "Running",
        **({} if end is None else {"reason": None, "message": None}),
        **_build_addresses(node, address),
        "startTime": pod.status.start_time or moment,
        "conditions": build_pod_conditions(pod, moment, ready=True),
        "initContainerStatuses": _build_finished_init_statuses(
            pod, pod.spec.init_containers, moment
        )
        or None,
        "containerStatuses": [
            _build_container_status(pod, each, up, count, last) for each in pod.spec.containers
        ],
    }


def build_ephemeral_status(pod: Pod, now: datetime) -> JsonObject:
    """Ephemeral containers run, like the others, from when they are first observed."""
    since = {
        each.name: each.state.running.started_at
        for each in pod.status.ephemeral_container_statuses
        if each.state.running is not None
    }
    return {
        "ephemeralContainerStatuses": [
            _build_container_status(
                pod,
                each,
                {**_running_state(since.get(each.name) or format_rfc3339(now)), "ready": False},
                0,
                {},
            )
            for each in pod.spec.ephemeral_containers
        ]
    }


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The GPUs of a pod, and the lost ones among them."""

    allocated: Sequence[int] = ()
    lost: Sequence[int] = ()

    @property
    def problem(self) -> str:
        """What is wrong with them; empty if nothing is."""
        if not self.lost:
            return ""
        return f"unhealthy devices of {GPU}: {', '.join(map(str, self.lost))}"


NO_DEVICES = PodDevices()


def build_back_off_status(
    pod: Pod,
    end: ContainerStateTerminated,
    now: datetime,
    delay: str,
    devices: PodDevices = NO_DEVICES,
) -> JsonObject:
    """All containers have ended, and restart after a delay."""

    def waits(container: Container) -> JsonObject:
        message = f"back-off {delay} restarting failed container={container.name} "
        return {
            "state": {
                "waiting": {
                    "reason": CRASH_LOOP_BACK_OFF,
                    "message": f"{message}pod={full_name(pod)}",
                }
            },
            "ready": False,
            "started": False,
        }

    health = _build_device_health(pod, devices)
    condition = {"reason": UNHEALTHY_DEVICES, "message": devices.problem} if devices.lost else {}
    return {
        "phase": "Running",
        **condition,
        "conditions": build_pod_conditions(
            pod, format_rfc3339(now), ready=False, reason="ContainersNotReady"
        ),
        "containerStatuses": [
            {
                **_build_container_status(
                    pod, each, waits(each), restart_count(pod), _terminated_state(end)
                ),
                **health.get(each.name, {}),
            }
            for each in pod.spec.containers
        ],
    }


def build_initializing_status(pod: Pod, node: int, address: str, now: datetime) -> JsonObject:
    """Its startup container runs, and all that come after it wait."""
    moment = format_rfc3339(now)
    inits = pod.spec.init_containers
    index = next(i for i, each in enumerate(inits) if each.name == STARTUP_CONTAINER)
    up: JsonObject = {**_running_state(moment), "ready": False}
    wait: JsonObject = {
        "state": {"waiting": {"reason": "PodInitializing"}},
        "ready": False,
        "started": False,
    }
    return {
        "phase": "Pending",
        **_build_addresses(node, address),
        "startTime": pod.status.start_time or moment,
        "conditions": build_pod_conditions(
            pod, moment, ready=False, initialized=False, reason="ContainersNotReady"
        ),
        "initContainerStatuses": [
            *_build_finished_init_statuses(pod, inits[:index], moment),
            _build_container_status(pod, inits[index], up, 0, {}),
            *(_build_container_status(pod, each, wait, 0, {}) for each in inits[index + 1 :]),
        ],
        "containerStatuses": [
            _build_container_status(pod, each, wait, 0, {}) for each in pod.spec.containers
        ],
    }


def build_terminated_status(
    pod: Pod,
    exit_code: int,
    now: datetime,
    reason: str,
    message: str,
    devices: PodDevices = NO_DEVICES,
) -> JsonObject:
    """All containers have ended, permanently."""
    moment, health = format_rfc3339(now), _build_device_health(pod, devices)
    ended = _terminated_state(build_termination(pod, exit_code, now))
    state: JsonObject = {"state": ended, "ready": False, "started": False}
    succeeded = exit_code == 0
    added = [
        _build_container_status(pod, each, state, 0, {}) for each in pod.spec.ephemeral_containers
    ]
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "reason": reason or None,
        "message": message or None,
        "startTime": pod.status.start_time or moment,
        "conditions": build_pod_conditions(
            pod, moment, ready=False, reason="PodCompleted" if succeeded else "PodFailed"
        ),
        "containerStatuses": [
            {
                **_build_container_status(pod, each, state, restart_count(pod), {}),
                **health.get(each.name, {}),
            }
            for each in pod.spec.containers
        ],
        **({"ephemeralContainerStatuses": added} if added else {}),
    }


def build_image_pull_status(pod: Pod, node: int, now: datetime, reason: str) -> JsonObject:
    """Its images cannot be pulled: containers wait."""
    moment = format_rfc3339(now)
    message = "simulated registry does not answer"
    state: JsonObject = {
        "state": {"waiting": {"reason": reason, "message": message}},
        "ready": False,
        "started": False,
    }
    return {
        "phase": "Pending",
        "hostIP": node_address(node),
        "hostIPs": [{"ip": node_address(node)}],
        "startTime": pod.status.start_time or moment,
        "conditions": build_pod_conditions(pod, moment, ready=False, reason="ContainersNotReady"),
        "containerStatuses": [
            _build_container_status(pod, each, state, 0, {}) for each in pod.spec.containers
        ],
    }


def build_creating_status(
    pod: Pod, node: int, missing: Sequence[DeviceAssignment], now: datetime
) -> JsonObject:
    """Its containers wait until the node agent has made its devices."""
    moment, names = format_rfc3339(now), format_devices(tuple(missing))
    wanted = "MIG instances" if any(each.profile for each in missing) else "GPUs without MIG mode:"
    state: JsonObject = {
        "state": {
            "waiting": {
                "reason": CONTAINER_CREATING,
                "message": f"waiting for the node agent to make {wanted} {names}",
            }
        },
        "ready": False,
        "started": False,
    }
    return {
        "phase": "Pending",
        "hostIP": node_address(node),
        "hostIPs": [{"ip": node_address(node)}],
        "startTime": pod.status.start_time or moment,
        "conditions": build_pod_conditions(pod, moment, ready=False, reason="ContainersNotReady"),
        "containerStatuses": [
            _build_container_status(pod, each, state, 0, {}) for each in pod.spec.containers
        ],
    }


def build_rejected_status(pod: Pod, available: int, now: datetime) -> JsonObject:
    """The node has fewer GPUs than were assumed, or others."""
    return {
        "phase": "Failed",
        "reason": UNEXPECTED_ADMISSION_ERROR,
        "message": describe_rejection(pod, available),
        "startTime": format_rfc3339(now),
    }


def describe_rejection(pod: Pod, available: int) -> str:
    """Why a node rejects a pod, in the kubelet's words."""
    given = assigned_gpus(pod)
    problem = (
        f"devices {format_devices(given)} being lost or in use"
        if given
        else "devices of its ResourceClaims being lost or in use"
        if uses_claims(pod)
        else f"requested number of devices unavailable for {GPU}. "
        f"Requested: {requested_gpus(pod)}, Available: {available}"
    )
    return f"Pod was rejected: Allocate failed due to {problem}, which is unexpected"


def build_pod_conditions(
    pod: Pod, moment: str, *, ready: bool, initialized: bool = True, reason: str = ""
) -> list[JsonObject]:
    """The conditions of a pod that is bound; `reason` is why it is not ready.

    PodScheduled keeps its transition time, so that the startup latency stays visible.
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


def _build_addresses(node: int, pod: str) -> JsonObject:
    host = node_address(node)
    return {
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": pod,
        "podIPs": [{"ip": pod}],
    }


def _running_state(since: str) -> JsonObject:
    return {"state": {"running": {"startedAt": since}}, "ready": True, "started": True}


def _build_finished_init_statuses(
    pod: Pod, inits: Sequence[Container], moment: str
) -> list[JsonObject]:
    """Completed init containers, except sidecars, which keep running."""
    up = _running_state(moment)
    done: JsonObject = {
        "state": _terminated_state(ContainerStateTerminated(0, "Completed", moment, moment)),
        "ready": True,
        "started": False,
    }
    return [
        _build_container_status(pod, each, up if each.restart_policy == "Always" else done, 0, {})
        for each in inits
    ]


def _build_device_health(pod: Pod, devices: PodDevices) -> dict[str, JsonObject]:
    """The device health in each container's status; empty while all devices are healthy.

    Which container has which of a pod's devices is not recorded: they are assigned in order.
    """
    if not devices.lost:
        return {}
    left, found = list(devices.allocated), dict[str, JsonObject]()
    for container in pod.spec.containers:
        count = quantity_from_json(container.resources.limits.get(GPU, 0)).value
        own, left = left[:count], left[count:]
        if container is pod.spec.containers[-1]:
            own += left  # assigned without a resource limit
        if own:
            health = [
                {
                    "resourceID": str(gpu),
                    "health": "Unhealthy" if gpu in devices.lost else "Healthy",
                }
                for gpu in own
            ]
            found[container.name] = {
                "allocatedResourcesStatus": [{"name": GPU, "resources": health}]
            }
    return found


def _terminated_state(end: ContainerStateTerminated) -> JsonObject:
    return {"terminated": msgspec.to_builtins(end)}


def _build_container_status(
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
