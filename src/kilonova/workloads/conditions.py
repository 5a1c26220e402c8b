"""Conditions: set so that their times are true. Pure."""

from collections.abc import Sequence
from datetime import datetime

from kilonova.api.meta import Condition
from kilonova.api.times import rfc3339

BREACHED = "MinAvailableBreached"
UPDATING = "UpdateInProgress"


def find_condition(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((each for each in conditions if each.type == type_), None)


def holds(conditions: Sequence[Condition], type_: str) -> bool:
    """Whether a condition is there and true."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def with_condition(
    conditions: Sequence[Condition],
    type_: str,
    status: str,
    reason: str,
    message: str,
    now: datetime,
    generation: int | None = None,
) -> tuple[Condition, ...]:
    """The conditions with one of them set; its time changes only with its status."""
    old = find_condition(conditions, type_)
    same = old is not None and old.status == status and old.last_transition_time
    since = old.last_transition_time if old is not None and same else rfc3339(now)
    new = Condition(type_, status, reason, message, since, observed_generation=generation)
    if old is None:
        return (*conditions, new)
    return tuple(new if each.type == type_ else each for each in conditions)


def without_condition(conditions: Sequence[Condition], type_: str) -> tuple[Condition, ...]:
    """The conditions but for one."""
    return tuple(each for each in conditions if each.type != type_)
