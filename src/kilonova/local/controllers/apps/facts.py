"""What controllers of sets ask about a pod. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.local.controllers.objects import Pod


def is_active(pod: Pod) -> bool:
    """Whether a pod counts as one of its set: it neither ended nor is going."""
    return not pod.ended and pod.metadata.deletion_timestamp is None


def is_going(pod: Pod) -> bool:
    """Whether a pod is being deleted and may still run."""
    return not pod.ended and pod.metadata.deletion_timestamp is not None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    if not pod.ready:
        return False
    left = _seconds_to_available(pod, min_ready_seconds, now)
    return left is not None and left <= 0


def next_availability(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the first of the ready pods becomes available; None if none will by time."""
    waits = [
        left
        for pod in pods
        if pod.ready and (left := _seconds_to_available(pod, min_ready_seconds, now)) is not None
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


def share_of(value: int | str, total: int, *, up: bool) -> int:
    """A count, or a percentage of the total, rounded up or down."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%")) if re.fullmatch("[0-9]+%", value) else 0
    return -(-percent * total // 100) if up else percent * total // 100
