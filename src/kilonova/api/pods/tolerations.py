"""Which taints a toleration tolerates. Pure.

One rule for pods and nodes, and for device requests and devices: that of `ToleratesTaint` in
k8s.io/api/core/v1, with the comparison operators of KEP-5471. There are no objects here: each
reader has projections of its own, and the scheduler's core has values of its own.
"""

import re
from collections.abc import Iterable
from typing import Protocol


class Taint(Protocol):
    """A taint of a node or a device."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Toleration(Protocol):
    """A toleration. An empty key (only with Exists) or an empty effect matches any, and an empty
    operator is Equal."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of the tolerations tolerates a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration tolerates a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            bound, value = _parse_int64(toleration.value), _parse_int64(taint.value)
            if bound is None or value is None:
                return False
            return value < bound if toleration.operator == "Lt" else value > bound
        case _:
            return False


_match_decimal = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII).fullmatch


def _parse_int64(text: str) -> int | None:
    """A decimal integer without sign `+` and leading zeros; None if it is none."""
    number = int(text) if _match_decimal(text) else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None
