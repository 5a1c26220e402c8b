"""Which pods of a ReplicaSet are deleted first when it scales down. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from kilonova.api.times import parse_time
from kilonova.local.controllers.apps.pod_state import is_active
from kilonova.local.objects.core import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_is_cost = re.compile("0|-?[1-9][0-9]*").fullmatch


def select_pods_to_delete(
    pods: list[Pod], related: Iterable[Pod], count: int, now: datetime
) -> list[Pod]:
    """The `count` pods to delete.

    Unbound before bound, pending before running, unready before ready, then the lower deletion
    cost, then those on nodes with more of the `related` pods, the shorter ready, those that
    restarted more often, the younger. Times are compared by order of magnitude, so that of pods of
    about the same age any may be chosen.
    """
    if count >= len(pods):
        return pods
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    ranked = [_rank_pod(pod, on_node[pod.spec.node_name], now) for pod in pods]
    ranked.sort(key=cmp_to_key(_compare_ranks))
    return [each.pod for each in ranked[:count]]


@dataclass(frozen=True, slots=True)
class _DeletionRank:
    pod: Pod
    leading_criteria: tuple[int, ...]
    ready_since: str
    ready_magnitude: int
    restarts: tuple[int, int]
    created: str
    created_magnitude: int


def _rank_pod(pod: Pod, neighbours: int, now: datetime) -> _DeletionRank:
    condition = pod.condition("Ready")
    ready_since = (condition.last_transition_time or "") if condition and pod.is_ready else ""
    created = pod.metadata.creation_timestamp
    before_age = (
        1 if pod.spec.node_name else 0,
        _PHASES.get(pod.status.phase, 0),
        1 if pod.is_ready else 0,
        _deletion_cost(pod),
        -neighbours,
    )
    return _DeletionRank(
        pod,
        before_age,
        ready_since,
        _log2_age(ready_since, now),
        _max_restarts(pod),
        created,
        _log2_age(created, now),
    )


def _compare_ranks(one: _DeletionRank, other: _DeletionRank) -> int:
    if one.leading_criteria != other.leading_criteria:
        return -1 if one.leading_criteria < other.leading_criteria else 1
    both_ready = one.pod.is_ready and other.pod.is_ready
    if both_ready and one.ready_since != other.ready_since:
        return _compare_times(one, other, one.ready_since, other.ready_since)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _compare_times(one, other, one.created, other.created)
    return 0


def _compare_times(one: _DeletionRank, other: _DeletionRank, one_time: str, other_time: str) -> int:
    """The later first, and pods without a time before all; times of equal magnitude by uid."""
    if not one_time or not other_time:
        return -1 if not one_time else 1
    ready = one_time is one.ready_since
    magnitudes = (
        (one.ready_magnitude, other.ready_magnitude)
        if ready
        else (one.created_magnitude, other.created_magnitude)
    )
    if magnitudes[0] != magnitudes[1]:
        return magnitudes[0] - magnitudes[1]
    return -1 if one.pod.metadata.uid < other.pod.metadata.uid else 1


def _log2_age(time: str, now: datetime) -> int:
    """The logarithm of the time since then, in nanoseconds."""
    if not time:
        return -1
    elapsed = (now - parse_time(time)).total_seconds() * 1e9
    return int(math.log2(elapsed)) if elapsed >= 1 else -1


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    value = int(text) if _is_cost(text) else 0
    return value if -(1 << 31) <= value < 1 << 31 else 0


def _max_restarts(pod: Pod) -> tuple[int, int]:
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    regular = (each.restart_count for each in pod.status.container_statuses)
    beside = (
        each.restart_count for each in pod.status.init_container_statuses if each.name in sidecars
    )
    return max(regular, default=0), max(beside, default=0)
