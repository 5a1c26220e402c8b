"""Label selectors as values: requirements, matching and formatting."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, bad_request, invalid_value
from kilonova.local.apimachinery.names import label_value_error, qualified_name_error

Operator = Literal["=", "!=", "in", "notin", "exists", "!", ">", "<"]
LabelPredicate = Callable[[Mapping[str, str]], bool]

_is_integer = re.compile("[+-]?[0-9]+").fullmatch


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one key. `values` are sorted and unique.

    `=`, `!=`, `>` and `<` have one value, `in` and `notin` any number, `exists` and `!` none. As in
    Kubernetes, `!=` and `notin` also match objects without the key.
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


def make_requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """A requirement with a valid key and values; raises `ApiError` 400 otherwise."""
    requirement = Requirement(key, operator, tuple(sorted(set(values))))
    problems: list[FieldError] = []
    if error := qualified_name_error(key):
        problems.append(invalid_value("key", key, error))
    if operator in ("in", "notin") and not requirement.values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        problems.append(invalid_value("values", [], detail))
    if operator in ("exists", "!") and requirement.values:
        detail = "values set must be empty for exists and does not exist"
        problems.append(invalid_value("values", list(requirement.values), detail))
    for index, value in enumerate(requirement.values):
        if operator in (">", "<") and _parse_integer(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            problems.append(invalid_value(f"values[{index}]", value, detail))
        if error := label_value_error(value):
            problems.append(invalid_value(f"values[{index}][{key}]", value, error))
    if problems:
        texts = [str(problem) for problem in problems]
        raise bad_request(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return requirement


@dataclass(frozen=True)
class LabelSelector:
    """The conjunction of its requirements; without requirements it selects everything.

    `matches` takes the labels of an object.
    """

    requirements: tuple[Requirement, ...] = ()
    matches: LabelPredicate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.requirements, key=lambda requirement: requirement.key))
        object.__setattr__(self, "requirements", ordered)
        object.__setattr__(
            self,
            "matches",
            _all_match([_compile_requirement(requirement) for requirement in ordered]),
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __bool__(self) -> bool:
        """Whether the selector excludes any object."""
        return bool(self.requirements)

    def exact_value(self, key: str) -> str | None:
        """The only value that `key` may have, if a requirement fixes it."""
        for requirement in self.requirements:
            if (
                requirement.key == key
                and requirement.operator in ("=", "in")
                and len(requirement.values) == 1
            ):
                return requirement.values[0]
        return None


_OPERATORS: dict[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


def selector_from_object(selector: JsonObject | None) -> LabelSelector:
    """Compile a LabelSelector object (matchLabels, matchExpressions).

    As in Kubernetes an absent selector selects nothing, an empty one everything.
    """
    if selector is None:
        return NOTHING
    labels: dict[str, str] = selector.get("matchLabels") or {}
    expressions: list[JsonObject] = selector.get("matchExpressions") or []
    requirements = [make_requirement(key, "=", [value]) for key, value in labels.items()]
    for expression in expressions:
        named = expression.get("operator", "")
        operator = _OPERATORS.get(named)
        if operator is None:
            raise bad_request(f'"{named}" is not a valid label selector operator')
        values: list[str] = expression.get("values") or []
        requirements.append(make_requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(requirements))


def _all_match(tests: list[LabelPredicate]) -> LabelPredicate:
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


def _compile_requirement(requirement: Requirement) -> LabelPredicate:
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case "exists":
            return lambda labels: key in labels
        case "!":
            return lambda labels: key not in labels
        case "=":
            (expected,) = values
            return lambda labels: labels.get(key) == expected
        case "!=":
            (excluded,) = values
            return lambda labels: labels.get(key) != excluded
        case "in":
            return lambda labels: labels.get(key) in values
        case "notin":
            return lambda labels: labels.get(key) not in values
        case ">" | "<":
            return _compare_integer(key, requirement.values[0], greater=requirement.operator == ">")


def _compare_integer(key: str, value: str, *, greater: bool) -> LabelPredicate:
    limit = _parse_integer(value)
    assert limit is not None

    def matches(labels: Mapping[str, str]) -> bool:
        found = _parse_integer(labels.get(key, ""))
        if found is None:
            return False
        return found > limit if greater else found < limit

    return matches


def _parse_integer(value: str) -> int | None:
    """Parse what Go accepts as a 64-bit integer."""
    if not _is_integer(value):
        return None
    found = int(value) if len(value) < 64 else 1 << 63
    return found if -(1 << 63) <= found < 1 << 63 else None


EVERYTHING = LabelSelector()

NOTHING = LabelSelector((Requirement("", "in", ()),))
"""Matches no labels: no value is in the empty set. It has no text form."""
