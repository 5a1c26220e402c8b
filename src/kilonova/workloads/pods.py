"""What a pod's state says. Pure."""

from collections.abc import Iterable

from kilonova.api.grove import names
from kilonova.api.grove.parts import MOST_REPLICAS
from kilonova.workloads.keys import index_of
from kilonova.workloads.resources import Pod

_PLACES = 2 * MOST_REPLICAS
"""In an update a clique may have twice as many pods as replicas."""


def pod_index(pod: Pod) -> int | None:
    """The pod's place in its clique; None for one that no clique has, whatever a label says."""
    index = index_of(pod.metadata, names.POD_INDEX)
    return index if index is not None and index < _PLACES else None


def is_ending(pod: Pod) -> bool:
    """Whether somebody has deleted it."""
    return pod.metadata.deletion_timestamp is not None


def is_finished(pod: Pod) -> bool:
    """Whether none of its containers runs, or ever will again."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_gated(pod: Pod) -> bool:
    """Whether it waits for its gang."""
    return any(gate.name == names.GATE for gate in pod.spec.scheduling_gates)


def is_scheduled(pod: Pod) -> bool:
    """Whether it has a node."""
    return bool(pod.spec.node_name)


def is_ready(pod: Pod) -> bool:
    """Whether it does its work."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def has_started(pod: Pod) -> bool:
    """Whether all of its containers have passed their start."""
    statuses = pod.status.container_statuses
    return bool(statuses) and all(each.started for each in statuses)


def has_failed_lately(pod: Pod) -> bool:
    """Whether a container of it last ended with an error."""
    ends = (
        each.state.terminated or each.last_state.terminated
        for each in pod.status.container_statuses
    )
    return any(end is not None and end.exit_code != 0 for end in ends)


def problem_of(pods: Iterable[Pod]) -> str:
    """What is said to be wrong with the first of some pods that is not ready and says so."""
    return next(
        (
            f"pod {pod.metadata.name}: {pod.status.message}"
            for pod in pods
            if pod.status.message and not is_ready(pod)
        ),
        "",
    )
