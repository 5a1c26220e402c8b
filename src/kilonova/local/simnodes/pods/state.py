"""What pods of simulated nodes request, and what their status reports. Pure."""

from kilonova.api.gpu.annotations import (
    DEVICES,
    DeviceAssignment,
    InvalidAnnotation,
    parse_devices,
)
from kilonova.api.grove.names import STARTUP_CONTAINER, STARTUP_RELEASED
from kilonova.api.quantity import quantity_from_json
from kilonova.catalog.resource_names import GPU, profile_of_resource
from kilonova.local.objects.core import (
    ContainerState,
    ContainerStateTerminated,
    Pod,
)
from kilonova.local.objects.pod_resources import effective_requests

_MAX_INSTANCES = 1024
"""More than the GPUs of any node have."""


def full_name(pod: Pod) -> str:
    """The pod's name in kubelet messages: `name_namespace(uid)`."""
    metadata = pod.metadata
    return f"{metadata.name}_{metadata.namespace}({metadata.uid})"


def restart_count(pod: Pod) -> int:
    """How often a pod's containers have been restarted."""
    return max((each.restart_count for each in pod.status.container_statuses), default=0)


def started_at(pod: Pod) -> str | None:
    """When a pod's containers were last started."""
    running = (each.state.running for each in pod.status.container_statuses)
    return next((each.started_at for each in running if each is not None), None)


def last_termination(pod: Pod) -> ContainerStateTerminated | None:
    """The last terminated state of its containers."""
    ends = (each.last_state.terminated for each in pod.status.container_statuses)
    return next((each for each in ends if each is not None), None)


def is_daemon_set_pod(pod: Pod) -> bool:
    """Whether the pod belongs to a DaemonSet, which a drain ignores."""
    return any(each.kind == "DaemonSet" for each in pod.metadata.owner_references)


def is_job_pod(pod: Pod) -> bool:
    """Whether the pod belongs to a Job."""
    return any(each.kind == "Job" for each in pod.metadata.owner_references)


def is_waiting_for_startup(pod: Pod) -> bool:
    """Whether its startup container waits for other cliques."""
    has_startup = any(each.name == STARTUP_CONTAINER for each in pod.spec.init_containers)
    return has_startup and not pod.metadata.annotations.get(STARTUP_RELEASED)


def is_initializing(pod: Pod) -> bool:
    """Whether its status indicates that not all init containers have completed."""
    found = pod.condition("Initialized")
    return pod.status.phase == "Pending" and found is not None and found.status == "False"


def is_startup_released(pod: Pod) -> bool:
    """Whether its startup container, as reported in its status, may complete."""
    return is_initializing(pod) and not is_waiting_for_startup(pod)


def is_backing_off(pod: Pod) -> bool:
    """Whether its containers have ended and wait for a restart."""
    return pod.status.phase == "Running" and any(
        each.last_state.terminated is not None and each.state == ContainerState()
        for each in pod.status.container_statuses
    )


def has_new_ephemeral_containers(pod: Pod) -> bool:
    """Whether an ephemeral container was added (`kubectl debug`) that its status lacks."""
    return len(pod.spec.ephemeral_containers) > len(pod.status.ephemeral_container_statuses)


def requested_gpus(pod: Pod) -> int:
    """The number of GPUs that a pod needs at once."""
    requests = effective_requests(pod.spec, lambda amount: quantity_from_json(amount).value)
    return requests.get(GPU, 0)


def requested_instances(pod: Pod) -> list[str]:
    """The profiles of the MIG instances that a pod requests."""
    requests = effective_requests(pod.spec, lambda amount: quantity_from_json(amount).value)
    return [
        profile
        for name, count in sorted(requests.items())
        if (profile := profile_of_resource(name)) is not None
        for _ in range(min(count, _MAX_INSTANCES))
    ]


def assigned_gpus(pod: Pod) -> tuple[DeviceAssignment, ...]:
    """The devices that its scheduler assigned to a pod, if any."""
    found = parse_devices(pod.metadata.annotations.get(DEVICES, ""))
    return () if isinstance(found, InvalidAnnotation) else found


def reported_gpus(pod: Pod) -> tuple[DeviceAssignment, ...]:
    """The devices in a pod's status, which reports them while some are lost."""
    return tuple(
        DeviceAssignment(int(device.id))
        for status in pod.status.container_statuses
        for each in status.allocated_resources_status or ()
        if each.name == GPU
        for device in each.resources or ()
        if device.id.isdecimal()
    )
