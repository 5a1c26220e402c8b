"""How a function is declared, and how foreign values travel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

OPAQUE_TYPES = {
    "quantity": "kubernetes.Quantity",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "url": "kubernetes.URL",
    "semver": "kubernetes.Semver",
    "authorizer": "kubernetes.authorization.Authorizer",
    "path_check": "kubernetes.authorization.PathCheck",
    "group_check": "kubernetes.authorization.GroupCheck",
    "resource_check": "kubernetes.authorization.ResourceCheck",
    "decision": "kubernetes.authorization.Decision",
}
"""Our words for types that CEL itself does not have, and Kubernetes' names for them."""

_Call = TypeVar("_Call", bound=Callable[..., Any])
_BETWEEN_PARAMETERS = re.compile(r", (?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Signature:
    """Types as CEL writes them (`list(string)`), or a word of `OPAQUE_TYPES`."""

    parameters: tuple[str, ...]
    result: str
    member: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One implementation, which serves all of its signatures."""

    name: str
    signatures: tuple[Signature, ...]
    call: Callable[..., Any]


class Library(list[Function]):
    """Functions that belong together. A signature reads `string, int -> bool`."""

    def function(self, name: str, *signatures: str) -> Callable[[_Call], _Call]:
        """What is decorated answers `name(x)`."""
        return self._adding(name, False, signatures)

    def method(self, name: str, *signatures: str) -> Callable[[_Call], _Call]:
        """What is decorated answers `x.name()`; its first parameter is x."""
        return self._adding(name, True, signatures)

    def _adding(
        self, name: str, member: bool, signatures: tuple[str, ...]
    ) -> Callable[[_Call], _Call]:
        def add(call: _Call) -> _Call:
            self.append(
                Function(name, tuple(_signature(each, member) for each in signatures), call)
            )
            return call

        return add


def sealed(kind: str, text: str) -> dict[str, str]:
    """A value of a foreign type, as the runtime carries it."""
    return {kind: text}


def opened(kind: str, value: dict[str, str]) -> str:
    """The text of a value of the foreign type `kind`."""
    text = value.get(kind)
    if text is None:
        raise ValueError("no such overload")
    return text


def _signature(text: str, member: bool) -> Signature:
    parameters, _, result = text.partition(" -> ")
    return Signature(tuple(_BETWEEN_PARAMETERS.split(parameters)), result, member)
