"""Validation that many kinds share; each function returns field errors."""

import re
from collections.abc import Iterable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import (
    label_value_error,
    qualified_name_error,
    validate_labels,
)
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)

IMMUTABLE_FIELD = "field is immutable"


def validate_immutable(new: JsonObject, old: JsonObject, *path: str) -> list[FieldError]:
    """The value at the path is immutable."""
    value = nested_value(new, *path)
    if value == nested_value(old, *path):
        return []
    return [invalid_value(".".join(path), value, IMMUTABLE_FIELD)]


def validate_not_negative(obj: JsonObject, path: str, fields: Iterable[str]) -> list[FieldError]:
    """Counts and seconds must not be negative."""
    return [
        invalid_value(f"{path}.{field}", obj[field], "must be greater than or equal to 0")
        for field in fields
        if isinstance(obj.get(field), int) and obj[field] < 0
    ]


def validate_replica_counts(status: JsonObject, parts: Iterable[str]) -> list[FieldError]:
    """Replica counts: none negative, none greater than the total."""
    fields = ["observedGeneration", "replicas", *parts]
    problems = validate_not_negative(status, "status", fields)
    total: int = status.get("replicas") or 0
    for field in parts:
        count: int = status.get(field) or 0
        if count > total:
            detail = "cannot be greater than status.replicas"
            problems.append(invalid_value(f"status.{field}", count, detail))
    available: int = status.get("availableReplicas") or 0
    if available > (status.get("readyReplicas") or 0):
        detail = "cannot be greater than readyReplicas"
        problems.append(invalid_value("status.availableReplicas", available, detail))
    return problems


def validate_enum(value: Any, path: str, allowed: list[str]) -> list[FieldError]:
    """The value must be one of the allowed ones."""
    return [] if value in allowed else [not_supported_value(path, value or "", allowed)]


def validate_port_number(value: Any, path: str) -> list[FieldError]:
    """1 to 65535."""
    if isinstance(value, int) and 1 <= value <= 65535:
        return []
    return [invalid_value(path, value or 0, "must be between 1 and 65535, inclusive")]


def validate_int_or_percent(value: Any, path: str) -> list[FieldError]:
    """A count, or a percentage like `25%`."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+%", value):
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            return [invalid_value(path, value, detail)]
    elif isinstance(value, int) and value < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    return []


def validate_max_100_percent(value: Any, path: str) -> list[FieldError]:
    """A percentage must not exceed 100."""
    if isinstance(value, str) and value.endswith("%") and int_or_percent_value(value) > 100:
        return [invalid_value(path, value, "must not be greater than 100%")]
    return []


def int_or_percent_value(value: Any) -> int:
    """The number of a count or a percentage; 0 if it is missing."""
    if isinstance(value, int):
        return value
    digits = str(value or "").removesuffix("%")
    return int(digits) if digits.isdigit() else 0


def validate_label_selector(selector: JsonObject | None, path: str) -> list[FieldError]:
    """Validate the syntax of a label selector."""
    if not selector:
        return []
    problems = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(nested_objects(selector, "matchExpressions")):
        item_path = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), nested_strings(expression, "values")
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                problems.append(required_value(f"{item_path}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                problems.append(forbidden_value(f"{item_path}.values", detail))
        else:
            detail = "not a valid selector operator"
            problems.append(invalid_value(f"{item_path}.operator", operator, detail))
        key = expression.get("key", "")
        if error := qualified_name_error(key):
            problems.append(invalid_value(f"{item_path}.key", key, error))
        for position, value in enumerate(values):
            if error := label_value_error(value):
                problems.append(invalid_value(f"{item_path}.values[{position}]", value, error))
    return problems


def selector_matches(selector: JsonObject | None, labels: JsonObject | None) -> bool:
    """Whether the selector matches the labels; an absent selector matches nothing."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in nested_object(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key"), expression.get("values") or ()
        conditions = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(expression.get("operator", ""), True)
        if not conditions:
            return False
    return True
