"""Which instances a deployment creates and deletes next. Pure.

Invariants of an update by RollingReplace, whatever fails in between:

- An available instance is deleted only if `replicas - maxUnavailable` available ones remain.
- There are never more than `replicas + maxSurge` instances.
- At most `maxUnavailable` instances that have their accelerators are given up for others that are
  not available yet: if these cannot be placed, the update stops there.
- An instance without accelerators that it could lose is replaced at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.api.inference_engine import UpdateStrategy
from kilonova.api.int_or_percent import resolve_int_or_percent, resolve_max_surge
from kilonova.instances.controllers.deployment.instance_state import (
    InstanceState,
    sort_for_deletion,
)


@dataclass(frozen=True, slots=True)
class RolloutBounds:
    """How many instances there are to be, and by how many that may differ during an update."""

    replicas: int
    max_unavailable: int
    max_surge: int

    @property
    def min_available(self) -> int:
        """The least number of available instances."""
        return self.replicas - self.max_unavailable


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """What is done next. Further steps follow when the instances have changed."""

    create: int = 0
    delete: tuple[InstanceState, ...] = ()
    kept: str = ""
    """Why outdated instances are kept: updated ones would not fit in their place."""


FindObstacle = Callable[[Sequence[InstanceState]], str]
"""Why no updated instance would fit if some instances were gone; empty if one would, or if that is
unknown."""


def resolve_bounds(strategy: UpdateStrategy, replicas: int) -> RolloutBounds:
    """The bounds; `ValueError` for a value that is neither a number nor a percentage.

    If neither an unavailable nor an additional instance is allowed, one may be unavailable: an
    update would never start.
    """
    surge = resolve_max_surge(strategy.max_surge, replicas)
    unavailable = resolve_int_or_percent(strategy.max_unavailable, replicas, 1)
    if strategy.type == "Recreate":
        return RolloutBounds(replicas, 0, 0)
    least = 0 if surge else 1
    return RolloutBounds(replicas, min(max(unavailable, least), replicas), surge)


def plan_scaling(states: Sequence[InstanceState], replicas: int) -> RolloutStep:
    """Only the number of instances changes: outdated ones stay."""
    surplus = len(states) - replicas
    if surplus > 0:
        return RolloutStep(delete=tuple(sort_for_deletion(states)[:surplus]))
    return RolloutStep(create=-surplus)


def plan_recreate(
    states: Sequence[InstanceState],
    outdated_terminating: int,
    replicas: int,
    find_obstacle: FindObstacle,
) -> RolloutStep:
    """All outdated instances are deleted; when they are gone, the updated ones are created."""
    outdated = [each for each in states if not each.is_updated]
    if not outdated and not outdated_terminating:
        return plan_scaling(states, replicas)
    losing = [each for each in outdated if each.has_place]
    if losing and replicas and (obstacle := find_obstacle(losing)):
        return RolloutStep(kept=obstacle)
    return RolloutStep(delete=tuple(sort_for_deletion(outdated)))


def plan_rolling_replace(
    states: Sequence[InstanceState], bounds: RolloutBounds, find_obstacle: FindObstacle
) -> RolloutStep:
    """Outdated instances are replaced within the bounds."""
    outdated = [each for each in states if not each.is_updated]
    if not outdated:
        return plan_scaling(states, bounds.replicas)
    updated = [each for each in states if each.is_updated]
    surplus = sort_for_deletion(updated)[: max(0, len(updated) - bounds.replicas)]
    present = [each for each in states if each not in surplus]
    replaced = _select_replaced(present, bounds)
    kept = ""
    losing = [each for each in replaced if each.has_place]
    if losing and bounds.replicas and (kept := find_obstacle(losing)):
        replaced = [each for each in replaced if not each.has_place]
    create = min(
        bounds.replicas - len(updated),
        bounds.replicas + bounds.max_surge - len(states),
    )
    return RolloutStep(max(0, create), (*surplus, *replaced), kept)


def _select_replaced(
    present: Sequence[InstanceState], bounds: RolloutBounds
) -> list[InstanceState]:
    """The outdated instances that may go now."""
    outdated = sort_for_deletion([each for each in present if not each.is_updated])
    starting = sum(1 for each in present if each.is_updated and not each.is_available)
    placeless = sum(1 for each in outdated if not each.has_place)
    # Instances that are available, or are outdated and may become so again.
    dispensable = len(present) - placeless - starting - bounds.min_available
    return outdated[: placeless + max(0, dispensable)]
