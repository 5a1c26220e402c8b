"""Rules that many kinds share, each giving the problems it finds."""

import re
from collections.abc import Iterable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value, not_supported, required
from kilonova.local.kinds.walk import at, objects, part, strings
from kilonova.local.names import label_problems, label_value, qualified_name

IMMUTABLE = "field is immutable"


def immutable(new: JsonObject, old: JsonObject, *path: str) -> list[Problem]:
    """The value under the path must stay what it is."""
    value = at(new, *path)
    if value == at(old, *path):
        return []
    return [invalid_value(".".join(path), value, IMMUTABLE)]


def not_negative(obj: JsonObject, path: str, fields: Iterable[str]) -> list[Problem]:
    """Counts and seconds start at 0."""
    return [
        invalid_value(f"{path}.{field}", obj[field], "must be greater than or equal to 0")
        for field in fields
        if isinstance(obj.get(field), int) and obj[field] < 0
    ]


def replica_problems(status: JsonObject, parts: Iterable[str]) -> list[Problem]:
    """Counts of replicas: none negative, no part greater than the whole."""
    fields = ["observedGeneration", "replicas", *parts]
    problems = not_negative(status, "status", fields)
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


def one_of(value: Any, path: str, allowed: list[str]) -> list[Problem]:
    """The value must be one of a few words."""
    return [] if value in allowed else [not_supported(path, value or "", allowed)]


def port_number(value: Any, path: str) -> list[Problem]:
    """1 to 65535."""
    if isinstance(value, int) and 1 <= value <= 65535:
        return []
    return [invalid_value(path, value or 0, "must be between 1 and 65535, inclusive")]


def int_or_percent(value: Any, path: str) -> list[Problem]:
    """A count, or a share of the whole like `25%`."""
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


def at_most_all(value: Any, path: str) -> list[Problem]:
    """A share may not exceed the whole."""
    if isinstance(value, str) and value.endswith("%") and amount(value) > 100:
        return [invalid_value(path, value, "must not be greater than 100%")]
    return []


def amount(value: Any) -> int:
    """The number in a count or a percentage; 0 where there is none."""
    if isinstance(value, int):
        return value
    digits = str(value or "").removesuffix("%")
    return int(digits) if digits.isdigit() else 0


def label_selector_problems(selector: JsonObject | None, path: str) -> list[Problem]:
    """Syntax of a label selector."""
    if not selector:
        return []
    problems = label_problems(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(objects(selector, "matchExpressions")):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), strings(expression, "values")
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                problems.append(required(f"{here}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                problems.append(forbidden_field(f"{here}.values", detail))
        else:
            detail = "not a valid selector operator"
            problems.append(invalid_value(f"{here}.operator", operator, detail))
        key = expression.get("key", "")
        if trouble := qualified_name(key):
            problems.append(invalid_value(f"{here}.key", key, trouble))
        for position, value in enumerate(values):
            if trouble := label_value(value):
                problems.append(invalid_value(f"{here}.values[{position}]", value, trouble))
    return problems


def selects(selector: JsonObject | None, labels: JsonObject | None) -> bool:
    """Whether the selector matches the labels; no selector matches nothing."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in part(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key"), expression.get("values") or ()
        met = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(expression.get("operator", ""), True)
        if not met:
            return False
    return True
