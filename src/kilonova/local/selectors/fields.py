"""Field selectors: `metadata.name=x,status.phase!=Running`.

Which fields a kind has is not known here: the caller makes the mapping, or refuses a field
with one of the two errors below.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from kilonova.local.errors import ApiError, bad_request

_OPERATOR = re.compile("!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")
_ESCAPED = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One field compared with one value. A field that is absent has the value ""."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        return self.field + self.operator + _SPECIAL.sub(r"\\\g<0>", self.value)


@dataclass(frozen=True)
class FieldSelector:
    """All of its terms; without any it selects everything.

    `matches` takes the fields of an object by their names.
    """

    terms: tuple[FieldTerm, ...] = ()
    matches: Callable[[Mapping[str, str]], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matches", _compiled(self.terms))

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.terms)

    def exact(self, field: str) -> str | None:
        """The only value that `field` may have, if there is such a term."""
        for term in self.terms:
            if term.field == field and term.operator == "=":
                return term.value
        return None


@lru_cache(maxsize=256)
def parse_field_selector(text: str) -> FieldSelector:
    """The selector that a query parameter means; raises ApiError 400."""
    terms: list[FieldTerm] = []
    for part in sorted(_split(text)):
        if not part:
            continue
        operator = _OPERATOR.search(part)
        if operator is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _ESCAPED.sub(_unescaped, part[operator.end() :])
        sign = "!=" if operator.group() == "!=" else "="
        terms.append(FieldTerm(part[: operator.start()], sign, value))
    return FieldSelector(tuple(terms))


def unsupported_field(name: str) -> ApiError:
    """The refusal of a kind that has fields to select by, but not this one."""
    return bad_request(f"field label not supported: {name}")


def unknown_field(name: str) -> ApiError:
    """The refusal of a kind that has nothing to select by but its name and namespace."""
    return bad_request(
        f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _split(text: str) -> list[str]:
    """The terms between commas that are not escaped, with their escapes."""
    parts: list[str] = []
    position = 0
    while True:
        found = _TERM.match(text, position)
        assert found is not None
        parts.append(found.group())
        if found.end() == len(text):
            return parts
        position = found.end() + 1


def _unescaped(found: re.Match[str]) -> str:
    if found.group(1) is None:
        code = ord(found.group())
        raise bad_request(f"invalid field selector: unescaped character in value: {code}")
    if found.group(1) not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {found.group()}")
    return found.group(1)


def _compiled(terms: tuple[FieldTerm, ...]) -> Callable[[Mapping[str, str]], bool]:
    tests = [(term.field, term.value, term.operator == "=") for term in terms]

    def matches(fields: Mapping[str, str]) -> bool:
        for name, value, wanted in tests:  # noqa: SIM110 - a generator would cost more
            if (fields.get(name, "") == value) is not wanted:
                return False
        return True

    return matches
