"""Declaration of functions, and the representation of opaque values."""

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
"""Our names of types that CEL lacks, and Kubernetes' names."""

_Call = TypeVar("_Call", bound=Callable[..., Any])
_BETWEEN_PARAMETERS = re.compile(r", (?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Signature:
    """Types in CEL's syntax (`list(string)`), or a name in `OPAQUE_TYPES`."""

    parameters: tuple[str, ...]
    result: str
    member: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One implementation for all its signatures."""

    name: str
    signatures: tuple[Signature, ...]
    call: Callable[..., Any]


class FunctionLibrary(list[Function]):
    """Related functions. A signature is written `string, int -> bool`."""

    def function(self, name: str, *signatures: str) -> Callable[[_Call], _Call]:
        """Declares the decorated function as `name(x)`."""
        return self._register(name, False, signatures)

    def method(self, name: str, *signatures: str) -> Callable[[_Call], _Call]:
        """Declares the decorated function as `x.name()`; its first parameter is x."""
        return self._register(name, True, signatures)

    def _register(
        self, name: str, member: bool, signatures: tuple[str, ...]
    ) -> Callable[[_Call], _Call]:
        def add(call: _Call) -> _Call:
            self.append(
                Function(name, tuple(_parse_signature(each, member) for each in signatures), call)
            )
            return call

        return add


def wrap_opaque(kind: str, text: str) -> dict[str, str]:
    """A value of an opaque type, as the runtime represents it."""
    return {kind: text}


def unwrap_opaque(kind: str, value: dict[str, str]) -> str:
    """The text of a value of the opaque type `kind`."""
    text = value.get(kind)
    if text is None:
        raise ValueError("no such overload")
    return text


def _parse_signature(text: str, member: bool) -> Signature:
    parameters, _, result = text.partition(" -> ")
    return Signature(tuple(_BETWEEN_PARAMETERS.split(parameters)), result, member)
