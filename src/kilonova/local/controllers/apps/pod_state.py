"""Predicates on the pods of workloads. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.local.objects.core import Pod


def is_active(pod: Pod) -> bool:
    """Whether a pod counts for its workload: it has neither ended nor is it being deleted."""
    return not pod.is_terminal and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Whether a pod is being deleted and may still run."""
    return not pod.is_terminal and pod.metadata.deletion_timestamp is not None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for minReadySeconds."""
    if not pod.is_ready:
        return False
    left = _seconds_to_available(pod, min_ready_seconds, now)
    return left is not None and left <= 0


def seconds_to_next_available(
    pods: Iterable[Pod], min_ready_seconds: int, now: datetime
) -> float | None:
    """Seconds until the next ready pod becomes available; None if none will with time."""
    waits = [
        left
        for pod in pods
        if pod.is_ready and (left := _seconds_to_available(pod, min_ready_seconds, now)) is not None
    ]
    return min((wait for wait in waits if wait > 0), default=None)


def _seconds_to_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    if min_ready_seconds == 0:
        return 0
    ready = pod.condition("Ready")
    if ready is None or not ready.last_transition_time:
        return None
    since = parse_time(ready.last_transition_time)
    return (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()


def resolve_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """A count, or a percentage of the total, rounded up or down."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%")) if re.fullmatch("[0-9]+%", value) else 0
    return -(-percent * total // 100) if round_up else percent * total // 100
