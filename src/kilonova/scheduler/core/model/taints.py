"""Taints of nodes and devices, and tolerations."""

from dataclasses import dataclass
from typing import Literal

from kilonova.api.pods.tolerations import is_tolerated

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

FORBIDDEN_TOLERATION_KEYS = frozenset({"kilonova.dev/images"})
"""Keys of node taints that must not be tolerated without support from the pod: a node that pulls no
images fails a pod without a command of its own. Admission adds the toleration to pods that can run
there."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Repels pods that do not tolerate it."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; `tolerations` has the meaning of its operators and of empty fields."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


def untolerated_taints(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]
) -> tuple[Taint, ...]:
    """The taints that repel a pod with these tolerations."""
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not is_tolerated(taint, tolerations)
    )


def untolerated_soft_taints(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]
) -> tuple[Taint, ...]:
    """The PreferNoSchedule taints that these tolerations do not tolerate."""
    return tuple(
        taint
        for taint in taints
        if taint.effect == "PreferNoSchedule" and not is_tolerated(taint, tolerations)
    )
