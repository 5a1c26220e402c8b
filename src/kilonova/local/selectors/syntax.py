"""The text of label selectors: `app=web,tier in (front,back),!legacy`.

A recursive descent over tokens. Where it gives up, and in what words, follows Kubernetes,
since people search for these messages.
"""

import re
from functools import lru_cache
from typing import cast

from kilonova.local.errors import ApiError, bad_request, invalid_value
from kilonova.local.names import qualified_name
from kilonova.local.selectors.labels import LabelSelector, Operator, Requirement, requirement

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")
_SYMBOLS = frozenset(["==", "!=", "=", "!", "(", ")", ",", "<", ">", ""])
_EXACT_OPERATORS = frozenset(["=", "==", "!=", ">", "<"])


@lru_cache(maxsize=256)
def parse_label_selector(text: str) -> LabelSelector:
    """The selector that a query parameter means; raises ApiError 400."""
    return LabelSelector(tuple(_Parser(text).selector()))


class _Parser:
    """Reads tokens from the left; the empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [found.group(1) for found in _TOKEN.finditer(text)]
        self._next = 0

    def selector(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if self._peek() == "":
            return requirements
        if not _starts_requirement(self._peek()):
            raise _found(self._peek(), ", expected: !, identifier, or 'end of string'")
        while True:
            requirements.append(self._requirement())
            separator = self._take()
            if separator == "":
                return requirements
            if separator != ",":
                raise _found(separator, ", expected: ',' or 'end of string'")
            if not _starts_requirement(self._peek()):
                raise _found(self._peek(), ", expected: identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            return self._parsed_requirement()
        except ApiError as error:
            raise bad_request(f"unable to parse requirement: {error.message}") from None

    def _parsed_requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._identifier()
        if trouble := qualified_name(key):
            raise bad_request(str(invalid_value("<nil>", key, trouble)))
        if absent:
            return requirement(key, "!")
        if self._peek() in ("", ","):
            return requirement(key, "exists")
        operator = self._take()
        if operator in ("in", "notin"):
            return requirement(key, cast(Operator, operator), self._set())
        if operator in _EXACT_OPERATORS:
            value = "" if self._peek() in ("", ",") else self._identifier()
            return requirement(key, cast(Operator, "=" if operator == "==" else operator), [value])
        raise _found(operator, ", expected: in, notin, =, ==, !=, gt, lt")

    def _identifier(self) -> str:
        token = self._take()
        if token in _SYMBOLS:
            raise _found(token, ", expected: identifier")
        return token

    def _set(self) -> set[str]:
        """`(a,b)`. A place without a value between commas and parentheses is the empty value."""
        opening = self._take()
        if opening != "(":
            raise _found(opening, " expected: '('")
        if self._peek() in _SYMBOLS - {",", ")"}:
            raise _found(self._peek(), ", expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            if self._peek() in (",", ")"):
                values.add("")
            else:
                token = self._take()
                if token in _SYMBOLS:
                    raise _found(token, ", expected: ',', or identifier")
                values.add(token)
            separator = self._peek()
            if separator not in (",", ")"):
                raise _found(separator, ", expected: ',' or ')'")
            self._take()
            if separator == ")":
                return values

    def _peek(self) -> str:
        return self._tokens[self._next]

    def _take(self) -> str:
        token = self._tokens[self._next]
        self._next += 1
        return token


def _starts_requirement(token: str) -> bool:
    return token not in _SYMBOLS - {"!"}


def _found(token: str, expectation: str) -> ApiError:
    return bad_request(f"found '{token}'{expectation}")
