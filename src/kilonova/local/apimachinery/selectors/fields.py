"""Field selectors: `metadata.name=x,status.phase!=Running`.

The selectable fields of a kind are not known here: the caller passes the field values, and rejects
unknown fields with one of the two errors below.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from kilonova.local.apimachinery.errors import ApiError, bad_request

_OPERATOR = re.compile("!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")
_ESCAPED = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field compared with one value. An absent field has the value ""."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        return self.field + self.operator + _SPECIAL.sub(r"\\\g<0>", self.value)


@dataclass(frozen=True)
class FieldSelector:
    """The conjunction of its terms; without terms it selects everything.

    `matches` takes the fields of an object by name.
    """

    terms: tuple[FieldRequirement, ...] = ()
    matches: Callable[[Mapping[str, str]], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matches", _compile_terms(self.terms))

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __bool__(self) -> bool:
        """Whether the selector excludes any object."""
        return bool(self.terms)

    def exact_value(self, field: str) -> str | None:
        """The only value that `field` may have, if a term requires one."""
        for term in self.terms:
            if term.field == field and term.operator == "=":
                return term.value
        return None


@lru_cache(maxsize=256)
def parse_field_selector(text: str) -> FieldSelector:
    """Parse the `fieldSelector` query parameter; raises `ApiError` 400."""
    terms: list[FieldRequirement] = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        operator = _OPERATOR.search(part)
        if operator is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _ESCAPED.sub(_unescape, part[operator.end() :])
        sign = "!=" if operator.group() == "!=" else "="
        terms.append(FieldRequirement(part[: operator.start()], sign, value))
    return FieldSelector(tuple(terms))


def unsupported_field_error(name: str) -> ApiError:
    """The error for a kind that has selectable fields, but not this one."""
    return bad_request(f"field label not supported: {name}")


def unknown_field_error(name: str) -> ApiError:
    """The error for a kind whose only selectable fields are name and namespace."""
    return bad_request(
        f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped; escapes are kept."""
    parts: list[str] = []
    position = 0
    while True:
        found = _TERM.match(text, position)
        assert found is not None
        parts.append(found.group())
        if found.end() == len(text):
            return parts
        position = found.end() + 1


def _unescape(found: re.Match[str]) -> str:
    if found.group(1) is None:
        code = ord(found.group())
        raise bad_request(f"invalid field selector: unescaped character in value: {code}")
    if found.group(1) not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {found.group()}")
    return found.group(1)


def _compile_terms(terms: tuple[FieldRequirement, ...]) -> Callable[[Mapping[str, str]], bool]:
    tests = [(term.field, term.value, term.operator == "=") for term in terms]

    def matches(fields: Mapping[str, str]) -> bool:
        for name, value, expected in tests:  # noqa: SIM110 - a generator would cost more
            if (fields.get(name, "") == value) is not expected:
                return False
        return True

    return matches
