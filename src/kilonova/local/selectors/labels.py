"""Label selectors as values: requirements, what they match, and how they are written."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, bad_request, invalid_value
from kilonova.local.names import label_value, qualified_name

Operator = Literal["=", "!=", "in", "notin", "exists", "!", ">", "<"]
Matches = Callable[[Mapping[str, str]], bool]

_is_integer = re.compile("[+-]?[0-9]+").fullmatch


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one key must be. `values` are sorted, without repetition.

    `=`, `!=`, `>` and `<` have one value, `in` and `notin` any number, `exists` and `!` none. As
    in Kubernetes, `!=` and `notin` hold also where the key is absent.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "=" | "!=" | ">" | "<":
                return f"{self.key}{self.operator}{self.values[0]}"


def requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """A requirement with a proper key and values; raises ApiError 400 otherwise."""
    made = Requirement(key, operator, tuple(sorted(set(values))))
    problems: list[Problem] = []
    if trouble := qualified_name(key):
        problems.append(invalid_value("key", key, trouble))
    if operator in ("in", "notin") and not made.values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        problems.append(invalid_value("values", [], detail))
    if operator in ("exists", "!") and made.values:
        detail = "values set must be empty for exists and does not exist"
        problems.append(invalid_value("values", list(made.values), detail))
    for place, value in enumerate(made.values):
        if operator in (">", "<") and _integer(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            problems.append(invalid_value(f"values[{place}]", value, detail))
        if trouble := label_value(value):
            problems.append(invalid_value(f"values[{place}][{key}]", value, trouble))
    if problems:
        texts = [str(problem) for problem in problems]
        raise bad_request(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return made


@dataclass(frozen=True)
class LabelSelector:
    """All of its requirements; without any it selects everything.

    `matches` takes the labels of an object.
    """

    requirements: tuple[Requirement, ...] = ()
    matches: Matches = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.requirements, key=lambda one: one.key))
        object.__setattr__(self, "requirements", ordered)
        object.__setattr__(self, "matches", _all_of([_compiled(one) for one in ordered]))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.requirements)

    def exact(self, key: str) -> str | None:
        """The only value that `key` may have, if there is such a requirement."""
        for one in self.requirements:
            if one.key == key and one.operator in ("=", "in") and len(one.values) == 1:
                return one.values[0]
        return None


_OPERATORS: dict[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


def label_selector(selector: JsonObject | None) -> LabelSelector:
    """What a LabelSelector object (matchLabels, matchExpressions) selects.

    As in Kubernetes an absent one selects nothing, an empty one everything.
    """
    if selector is None:
        return NOTHING
    labels: dict[str, str] = selector.get("matchLabels") or {}
    expressions: list[JsonObject] = selector.get("matchExpressions") or []
    requirements = [requirement(key, "=", [value]) for key, value in labels.items()]
    for expression in expressions:
        named = expression.get("operator", "")
        operator = _OPERATORS.get(named)
        if operator is None:
            raise bad_request(f'"{named}" is not a valid label selector operator')
        values: list[str] = expression.get("values") or []
        requirements.append(requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(requirements))


def _all_of(tests: list[Matches]) -> Matches:
    if not tests:
        return lambda labels: True
    if len(tests) == 1:
        return tests[0]

    def matches(labels: Mapping[str, str]) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if not test(labels):
                return False
        return True

    return matches


def _compiled(one: Requirement) -> Matches:
    key, values = one.key, frozenset(one.values)
    match one.operator:
        case "exists":
            return lambda labels: key in labels
        case "!":
            return lambda labels: key not in labels
        case "=":
            (wanted,) = values
            return lambda labels: labels.get(key) == wanted
        case "!=":
            (unwanted,) = values
            return lambda labels: labels.get(key) != unwanted
        case "in":
            return lambda labels: labels.get(key) in values
        case "notin":
            return lambda labels: labels.get(key) not in values
        case ">" | "<":
            return _compared(key, one.values[0], above=one.operator == ">")


def _compared(key: str, value: str, *, above: bool) -> Matches:
    limit = _integer(value)
    assert limit is not None

    def matches(labels: Mapping[str, str]) -> bool:
        found = _integer(labels.get(key, ""))
        if found is None:
            return False
        return found > limit if above else found < limit

    return matches


def _integer(value: str) -> int | None:
    """What Go takes for a 64-bit integer."""
    if not _is_integer(value):
        return None
    found = int(value) if len(value) < 64 else 1 << 63
    return found if -(1 << 63) <= found < 1 << 63 else None


EVERYTHING = LabelSelector()

NOTHING = LabelSelector((Requirement("", "in", ()),))
"""Matches no labels at all: no value is among none. It cannot be written as text."""
