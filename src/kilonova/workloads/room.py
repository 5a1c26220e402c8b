"""Whether there is room for pods. Pure.

A scheduler says of a pod that it fits nowhere also while the pod before it ends, and looks again
only after a while. So that is believed after some time, and not while a node is about to be free.
"""

from datetime import datetime

from kilonova.api.times import later, parse_time
from kilonova.workloads.pods import is_ending, is_finished
from kilonova.workloads.resources import Pod

_PATIENCE = 30.0
"""Seconds; three times what the scheduler of Kubernetes waits before it looks again."""
_NO_NODE = frozenset({"Unschedulable", "SchedulerError"})
"""What schedulers say of a pod that they found no node for. Other reasons are of pods that have
gates, or that their queue holds back."""


def is_unplaceable(pod: Pod) -> bool:
    """Whether a scheduler says that there is no node for it."""
    return not pod.spec.node_name and any(
        each.type == "PodScheduled" and each.status == "False" and each.reason in _NO_NODE
        for each in pod.status.conditions
    )


def homeless_from(pod: Pod) -> datetime | None:
    """From when on it counts as one that there is no room for; None if nobody says so."""
    if not is_unplaceable(pod):
        return None
    told = next(each for each in pod.status.conditions if each.type == "PodScheduled")
    since = told.last_transition_time or pod.metadata.creation_timestamp
    return later(parse_time(since), _PATIENCE)


def leaves_room(pod: Pod) -> bool:
    """Whether it is about to leave a node."""
    return is_ending(pod) and bool(pod.spec.node_name) and not is_finished(pod)
