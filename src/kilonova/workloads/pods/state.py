"""The state of one pod, as Kubernetes' podutil. Pure."""

from collections.abc import Iterable

from kilonova.api.grove import names
from kilonova.api.grove.common import MAX_REPLICAS
from kilonova.workloads.keys import get_label_index
from kilonova.workloads.resources import Pod

_MAX_INDEXES = 2 * MAX_REPLICAS
"""During an update a clique may have twice as many pods as replicas."""


def get_pod_index(pod: Pod) -> int | None:
    """The index of a pod in its clique; None if its label is missing or out of range."""
    index = get_label_index(pod.metadata, names.POD_INDEX)
    return index if index is not None and index < _MAX_INDEXES else None


def is_terminating(pod: Pod) -> bool:
    """Whether a pod has been deleted and has not gone yet."""
    return pod.metadata.deletion_timestamp is not None


def is_finished(pod: Pod) -> bool:
    """Whether no container of the pod runs or will run again."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_gated(pod: Pod) -> bool:
    """Whether a pod has the scheduling gate of its gang."""
    return any(gate.name == names.POD_GANG_GATE for gate in pod.spec.scheduling_gates)


def is_scheduled(pod: Pod) -> bool:
    """Whether a pod has a node."""
    return bool(pod.spec.node_name)


def is_ready(pod: Pod) -> bool:
    """Whether a pod is Ready."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def has_started_containers(pod: Pod) -> bool:
    """Whether all containers have passed their startup probes."""
    statuses = pod.status.container_statuses
    return bool(statuses) and all(each.started for each in statuses)


def has_failed_container(pod: Pod) -> bool:
    """Whether a container last terminated with an error."""
    ends = (
        each.state.terminated or each.last_state.terminated
        for each in pod.status.container_statuses
    )
    return any(end is not None and end.exit_code != 0 for end in ends)


def describe_problem(pods: Iterable[Pod]) -> str:
    """The status message of the first pod that is not ready and has one."""
    return next(
        (
            f"pod {pod.metadata.name}: {pod.status.message}"
            for pod in pods
            if pod.status.message and not is_ready(pod)
        ),
        "",
    )
