"""Which pods of a ReplicaSet go first when there are too many. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from kilonova.api.times import parse_time
from kilonova.local.controllers.apps.facts import is_active
from kilonova.local.controllers.objects import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_is_cost = re.compile("0|-?[1-9][0-9]*").fullmatch


def first_to_go(pods: list[Pod], related: Iterable[Pod], count: int, now: datetime) -> list[Pod]:
    """The `count` pods that are missed least.

    Unplaced before placed, pending before running, unready before ready, then the lower
    deletion cost, then those on nodes with more of the `related` pods, the shorter ready, those
    that restarted more often, the younger. Times are compared by their magnitude only, so that
    of pods about equally old any may go.
    """
    if count >= len(pods):
        return pods
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    ranked = [_rank(pod, on_node[pod.spec.node_name], now) for pod in pods]
    ranked.sort(key=cmp_to_key(_compare))
    return [each.pod for each in ranked[:count]]


@dataclass(frozen=True, slots=True)
class _Rank:
    pod: Pod
    before_age: tuple[int, ...]
    ready_since: str
    ready_magnitude: int
    restarts: tuple[int, int]
    created: str
    created_magnitude: int


def _rank(pod: Pod, neighbours: int, now: datetime) -> _Rank:
    condition = pod.condition("Ready")
    ready_since = (condition.last_transition_time or "") if condition and pod.ready else ""
    created = pod.metadata.creation_timestamp
    before_age = (
        1 if pod.spec.node_name else 0,
        _PHASES.get(pod.status.phase, 0),
        1 if pod.ready else 0,
        _cost(pod),
        -neighbours,
    )
    return _Rank(
        pod,
        before_age,
        ready_since,
        _magnitude(ready_since, now),
        _restarts(pod),
        created,
        _magnitude(created, now),
    )


def _compare(one: _Rank, other: _Rank) -> int:
    if one.before_age != other.before_age:
        return -1 if one.before_age < other.before_age else 1
    both_ready = one.pod.ready and other.pod.ready
    if both_ready and one.ready_since != other.ready_since:
        return _by_time(one, other, one.ready_since, other.ready_since)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _by_time(one, other, one.created, other.created)
    return 0


def _by_time(one: _Rank, other: _Rank, one_time: str, other_time: str) -> int:
    """The later goes first, and what has no time before all; near ones by chance of their uid."""
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


def _magnitude(time: str, now: datetime) -> int:
    """How often one could halve the time since then, in nanoseconds."""
    if not time:
        return -1
    elapsed = (now - parse_time(time)).total_seconds() * 1e9
    return int(math.log2(elapsed)) if elapsed >= 1 else -1


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    value = int(text) if _is_cost(text) else 0
    return value if -(1 << 31) <= value < 1 << 31 else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    regular = (each.restart_count for each in pod.status.container_statuses)
    beside = (
        each.restart_count for each in pod.status.init_container_statuses if each.name in sidecars
    )
    return max(regular, default=0), max(beside, default=0)
