"""Validation of conditions in a status."""

import re
from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    not_supported_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.names import qualified_name_error

_STATUSES = ["False", "True", "Unknown"]
_MAX_REASON_LENGTH = 1024
_MAX_MESSAGE_LENGTH = 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch


def validate_conditions(conditions: list[JsonObject], path: str) -> Iterator[FieldError]:
    """Condition types are unique, and each condition is complete."""
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind in known:
            yield duplicate_value(f"{path}[{index}].type", kind)
        known.add(kind)
        yield from _validate_condition(condition, f"{path}[{index}]")


def _validate_condition(condition: JsonObject, path: str) -> Iterator[FieldError]:
    kind, status = condition.get("type", ""), condition.get("status", "")
    reason, message = condition.get("reason", ""), condition.get("message", "")
    observed = condition.get("observedGeneration", 0)
    if error := qualified_name_error(kind):
        yield invalid_value(f"{path}.type", kind, error)
    if status not in _STATUSES:
        yield not_supported_value(f"{path}.status", status, _STATUSES)
    if observed < 0:
        detail = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.observedGeneration", observed, detail)
    if not condition.get("lastTransitionTime"):
        yield required_value(f"{path}.lastTransitionTime")
    if not reason:
        yield required_value(f"{path}.reason")
    elif not _is_reason(reason):
        yield invalid_value(f"{path}.reason", reason, _INVALID_REASON_MESSAGE)
    if len(reason.encode()) > _MAX_REASON_LENGTH:
        yield too_long_value(f"{path}.reason", _MAX_REASON_LENGTH)
    if len(message.encode()) > _MAX_MESSAGE_LENGTH:
        yield too_long_value(f"{path}.message", _MAX_MESSAGE_LENGTH)


_INVALID_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON}')"
)
