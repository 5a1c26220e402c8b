"""The parser of label selectors: `app=web,tier in (front,back),!legacy`.

A recursive descent over tokens. Error positions and messages follow Kubernetes, since users search
for these messages.
"""

import re
from functools import lru_cache
from typing import cast

from kilonova.local.apimachinery.errors import ApiError, bad_request, invalid_value
from kilonova.local.apimachinery.names import qualified_name_error
from kilonova.local.apimachinery.selectors.labels import (
    LabelSelector,
    Operator,
    Requirement,
    make_requirement,
)

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")
_SYMBOLS = frozenset(["==", "!=", "=", "!", "(", ")", ",", "<", ">", ""])
_EXACT_OPERATORS = frozenset(["=", "==", "!=", ">", "<"])


@lru_cache(maxsize=256)
def parse_label_selector(text: str) -> LabelSelector:
    """Parse the `labelSelector` query parameter; raises `ApiError` 400."""
    return LabelSelector(tuple(_Parser(text).parse()))


class _Parser:
    """Consumes tokens from the left; the empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [found.group(1) for found in _TOKEN.finditer(text)]
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if self._peek() == "":
            return requirements
        if not _starts_requirement(self._peek()):
            raise _unexpected_token(self._peek(), ", expected: !, identifier, or 'end of string'")
        while True:
            requirements.append(self._parse_requirement())
            separator = self._next_token()
            if separator == "":
                return requirements
            if separator != ",":
                raise _unexpected_token(separator, ", expected: ',' or 'end of string'")
            if not _starts_requirement(self._peek()):
                raise _unexpected_token(self._peek(), ", expected: identifier after ','")

    def _parse_requirement(self) -> Requirement:
        try:
            return self._parse_key_and_operator()
        except ApiError as error:
            raise bad_request(f"unable to parse requirement: {error.message}") from None

    def _parse_key_and_operator(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next_token()
        key = self._parse_identifier()
        if error := qualified_name_error(key):
            raise bad_request(str(invalid_value("<nil>", key, error)))
        if absent:
            return make_requirement(key, "!")
        if self._peek() in ("", ","):
            return make_requirement(key, "exists")
        operator = self._next_token()
        if operator in ("in", "notin"):
            return make_requirement(key, cast(Operator, operator), self._parse_values())
        if operator in _EXACT_OPERATORS:
            value = "" if self._peek() in ("", ",") else self._parse_identifier()
            return make_requirement(
                key, cast(Operator, "=" if operator == "==" else operator), [value]
            )
        raise _unexpected_token(operator, ", expected: in, notin, =, ==, !=, gt, lt")

    def _parse_identifier(self) -> str:
        token = self._next_token()
        if token in _SYMBOLS:
            raise _unexpected_token(token, ", expected: identifier")
        return token

    def _parse_values(self) -> set[str]:
        """`(a,b)`. Nothing between commas and parentheses is the empty value."""
        opening = self._next_token()
        if opening != "(":
            raise _unexpected_token(opening, " expected: '('")
        if self._peek() in _SYMBOLS - {",", ")"}:
            raise _unexpected_token(self._peek(), ", expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            if self._peek() in (",", ")"):
                values.add("")
            else:
                token = self._next_token()
                if token in _SYMBOLS:
                    raise _unexpected_token(token, ", expected: ',', or identifier")
                values.add(token)
            separator = self._peek()
            if separator not in (",", ")"):
                raise _unexpected_token(separator, ", expected: ',' or ')'")
            self._next_token()
            if separator == ")":
                return values

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _next_token(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        return token


def _starts_requirement(token: str) -> bool:
    return token not in _SYMBOLS - {"!"}


def _unexpected_token(token: str, expectation: str) -> ApiError:
    return bad_request(f"found '{token}'{expectation}")
