"""Conditions with correct transition times, as apimachinery's meta.SetStatusCondition. Pure.

The functions work on `api.meta.Condition`, and on any other Struct that has its fields: some kinds
of Kubernetes have conditions with other fields beside them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339


class ConditionFields(Protocol):
    """What every condition has. Implementations are frozen Structs."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def last_transition_time(self) -> str | None: ...


class _TypeAndStatus(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=ConditionFields)
R = TypeVar("R", bound=_TypeAndStatus)


def find_condition(conditions: Sequence[R], type_: str) -> R | None:
    """The condition of a type, or None."""
    return next((each for each in conditions if each.type == type_), None)


def is_condition_true(conditions: Sequence[_TypeAndStatus], type_: str) -> bool:
    """Whether a condition exists and is True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def has_same_content(old: ConditionFields | None, new: ConditionFields) -> bool:
    """Whether a condition has the status, reason and message of another."""
    if old is None:
        return False
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def with_condition(conditions: Sequence[C], new: C, now: datetime) -> tuple[C, ...]:
    """The conditions with one of them set, at the place of the one it replaces."""
    old = find_condition(conditions, new.type)
    stamped = keep_transition_time(new, old, now)
    if old is None:
        return (*conditions, stamped)
    return tuple(stamped if each is old else each for each in conditions)


def without_condition(conditions: Sequence[R], type_: str) -> tuple[R, ...]:
    """The conditions without one type."""
    return tuple(each for each in conditions if each.type != type_)


def keep_transition_time(new: C, old: C | None, now: datetime) -> C:
    """The new condition with the transition time of the old one if their status is the same, and
    with `now` otherwise."""
    same = old is not None and old.status == new.status
    since = (old.last_transition_time if old is not None and same else None) or format_rfc3339(now)
    struct = cast("msgspec.Struct", new)
    return cast("C", msgspec.structs.replace(struct, last_transition_time=since))


def encode_condition(condition: ConditionFields) -> JsonObject:
    """The JSON of a condition, without fields that are not set."""
    encoded = cast("JsonObject", msgspec.to_builtins(condition))
    return {name: value for name, value in encoded.items() if value is not None}
