"""Whether the scheduler finds nodes for pods. Pure.

A scheduler also reports a pod unschedulable while the pod that it replaces terminates, and retries
only after a while. So the report is believed after a grace period, and not while a pod is releasing
capacity.
"""

from datetime import datetime

from kilonova.api.times import add_seconds, parse_time
from kilonova.workloads.pods.state import is_finished, is_terminating
from kilonova.workloads.resources import Pod

_UNSCHEDULABLE_GRACE_SECONDS = 30.0
"""Three times the interval after which kube-scheduler retries."""
_UNSCHEDULABLE_REASONS = frozenset({"Unschedulable", "SchedulerError"})
"""Reasons that schedulers report for a pod without a feasible node. Other reasons are of gated pods
and of pods that wait in their queue.
"""


def is_unschedulable(pod: Pod) -> bool:
    """Whether a scheduler reports that it finds no node for a pod."""
    return not pod.spec.node_name and any(
        each.type == "PodScheduled"
        and each.status == "False"
        and each.reason in _UNSCHEDULABLE_REASONS
        for each in pod.status.conditions
    )


def compute_unplaced_from(pod: Pod) -> datetime | None:
    """From when on a pod counts as unplaced; None if it is not reported unschedulable."""
    if not is_unschedulable(pod):
        return None
    condition = next(each for each in pod.status.conditions if each.type == "PodScheduled")
    since = condition.last_transition_time or pod.metadata.creation_timestamp
    return add_seconds(parse_time(since), _UNSCHEDULABLE_GRACE_SECONDS)


def is_releasing_capacity(pod: Pod) -> bool:
    """Whether a pod is terminating and still occupies a node."""
    return is_terminating(pod) and bool(pod.spec.node_name) and not is_finished(pod)
