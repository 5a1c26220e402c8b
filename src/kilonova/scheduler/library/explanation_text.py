"""The explanation of an unschedulable gang as text."""

from collections.abc import Iterator
from datetime import UTC, datetime

from kilonova.api.times import format_rfc3339, human_duration
from kilonova.scheduler.core.explain import Explanation


def format_explanation(explanation: Explanation, now: float) -> Iterator[str]:
    """Why a gang is pending, in lines."""
    yield f"Blocked by: {explanation.blocking_constraint.text}."
    for diagnosis in explanation.diagnoses:
        yield f"Nodes for group {diagnosis.group}: {diagnosis.summary}"
    if explanation.changes:
        first, *others = explanation.changes
        yield f"Smallest change: {first.text}."
        for other in others:
            yield f"       or else: {other.text}."
    else:
        yield "No single change was found that would let it be scheduled."
    start = explanation.expected_start
    if start is None:
        yield "Expected start: unknown."
    else:
        delayed = any(each.taken_by for each in explanation.changes if each.change.kind == "Wait")
        time = f"{format_time(start)} (in {human_duration(max(0.0, start - now))})"
        yield f"Expected start: {'not before ' * delayed}{time}."


def format_time(at: float) -> str:
    """A time in UTC."""
    return format_rfc3339(datetime.fromtimestamp(at, UTC))
