"""Taints, of nodes and of devices, and who puts up with them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

NEVER_TO_TOLERATE = frozenset({"kilonova.dev/images"})
"""Keys of taints of nodes that could not run who tolerates them: a node that pulls no images fails
a pod without commands of its own. Admission adds that toleration to pods that can run there."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps pods away that do not tolerate it."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that is put up with; an empty key or effect stands for any."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: str = ""


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations is for a taint."""
    return any(
        (not one.effect or one.effect == taint.effect)
        and (not one.key or one.key == taint.key)
        and (one.operator == "Exists" or one.value == taint.value)
        and (bool(one.key) or one.operator == "Exists")
        for one in tolerations
    )


def intolerable(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]
) -> tuple[Taint, ...]:
    """The taints that keep away who has these tolerations."""
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint)
    )
