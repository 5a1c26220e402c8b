"""Rules for conditions in a status."""

import re
from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from kilonova.local.names import qualified_name

_STATUSES = ["False", "True", "Unknown"]
_LONGEST_REASON = 1024
_LONGEST_MESSAGE = 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch


def condition_problems(conditions: list[JsonObject], path: str) -> Iterator[Problem]:
    """Each type once, and each condition complete."""
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind in known:
            yield duplicate(f"{path}[{index}].type", kind)
        known.add(kind)
        yield from _condition(condition, f"{path}[{index}]")


def _condition(condition: JsonObject, path: str) -> Iterator[Problem]:
    kind, status = condition.get("type", ""), condition.get("status", "")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    observed = condition.get("observedGeneration", 0)
    if trouble := qualified_name(kind):
        yield invalid_value(f"{path}.type", kind, trouble)
    if status not in _STATUSES:
        yield not_supported(f"{path}.status", status, _STATUSES)
    if observed < 0:
        detail = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.observedGeneration", observed, detail)
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime")
    if not reason:
        yield required(f"{path}.reason")
    elif not _is_reason(reason):
        yield invalid_value(f"{path}.reason", reason, _WHY_NO_REASON)
    if len(reason.encode()) > _LONGEST_REASON:
        yield too_long(f"{path}.reason", _LONGEST_REASON)
    if len(message.encode()) > _LONGEST_MESSAGE:
        yield too_long(f"{path}.message", _LONGEST_MESSAGE)


_WHY_NO_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON}')"
)
