"""Limits of an autoscaler: recent recommendations and changes bound the next one. Pure.

A `ScalingHistory` is all state of an autoscaler in memory. After a restart it starts with the
current number of replicas: nothing is scaled down before the stabilization window has passed again.
"""

import math
from dataclasses import dataclass, replace

from kilonova.local.controllers.podautoscaler.objects import AutoscalerSpec, Behavior, ScalingRules

_DOWNSCALE_STABILIZATION_SECONDS = 300
_SCALE_UP_LIMIT_FACTOR = 2.0
_SCALE_UP_LIMIT_MINIMUM = 4
_WITHIN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST = "the desired replica count is {} faster than the maximum scale rate"
_DOWN_STABILIZED_MESSAGE = (
    "recent recommendations were higher than current one, applying the highest recent"
)
_UP_STABILIZED_MESSAGE = (
    "recent recommendations were lower than current one, applying the lowest recent"
)

ReasonAndMessage = tuple[str, str]
"""Reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class TimedReplicas:
    """A number of replicas, recommended or changed by, at a time of a monotonic clock."""

    time: float
    replicas: int


@dataclass(frozen=True, slots=True)
class ScalingHistory:
    """Recommendations, and the changes up and down."""

    recommendations: tuple[TimedReplicas, ...] = ()
    scale_ups: tuple[TimedReplicas, ...] = ()
    scale_downs: tuple[TimedReplicas, ...] = ()

    def record_scaling(
        self, before: int, after: int, behavior: Behavior | None, now: float
    ) -> "ScalingHistory":
        """With a change of the number; needed only with a `behavior`."""
        if behavior is None:
            return self
        change = TimedReplicas(now, abs(after - before))
        if after > before:
            recent = _select_recent(self.scale_ups, _longest_period(behavior.scale_up), now)
            return replace(self, scale_ups=(*recent, change))
        recent = _select_recent(self.scale_downs, _longest_period(behavior.scale_down), now)
        return replace(self, scale_downs=(*recent, change))


@dataclass(frozen=True, slots=True)
class LimitedScale:
    """The number of replicas to scale to, and the conditions."""

    replicas: int
    able_to_scale: ReasonAndMessage
    scaling_limited: ReasonAndMessage
    is_limited: bool
    history: ScalingHistory


def limit_scale(
    spec: AutoscalerSpec, current: int, desired: int, history: ScalingHistory, now: float
) -> LimitedScale:
    """Limit a recommendation to the bounds and rates of an autoscaler."""
    behavior = spec.behavior
    windows = _stabilization_windows(behavior)
    stable, stabilized = _stabilize_recommendation(
        behavior, current, desired, history, windows, now
    )
    able = ("ReadyForNewScale", "recommended size matches current size")
    recent = _select_recent(history.recommendations, max(windows), now)
    after = replace(history, recommendations=(*recent, TimedReplicas(now, desired)))
    if behavior is None:
        replicas, limited = _apply_default_limits(spec, current, stable)
    else:
        replicas, limited = _apply_behavior_limits(spec, behavior, current, stable, history, now)
    return LimitedScale(
        replicas, stabilized if stable != desired else able, limited, replicas != stable, after
    )


def _stabilization_windows(behavior: Behavior | None) -> tuple[int, int]:
    """The stabilization windows in seconds: scaling up, scaling down."""
    if behavior is None:
        return 0, _DOWNSCALE_STABILIZATION_SECONDS
    down = behavior.scale_down.stabilization_window_seconds
    return (
        behavior.scale_up.stabilization_window_seconds or 0,
        _DOWNSCALE_STABILIZATION_SECONDS if down is None else down,
    )


def _stabilize_recommendation(
    behavior: Behavior | None,
    current: int,
    desired: int,
    history: ScalingHistory,
    windows: tuple[int, int],
    now: float,
) -> tuple[int, ReasonAndMessage]:
    up, down = windows
    highest = max(
        (m.replicas for m in _select_recent(history.recommendations, down, now)), default=desired
    )
    stabilized = ("ScaleDownStabilized", f"{_DOWN_STABILIZED_MESSAGE} recommendation")
    if behavior is None:
        return max(desired, highest), stabilized
    lowest = min(
        (m.replicas for m in _select_recent(history.recommendations, up, now)), default=desired
    )
    stable = min(max(current, min(desired, lowest)), max(desired, highest))
    if desired >= current:
        stabilized = ("ScaleUpStabilized", f"{_UP_STABILIZED_MESSAGE} recommendation")
    return stable, stabilized


def _apply_default_limits(
    spec: AutoscalerSpec, current: int, desired: int
) -> tuple[int, ReasonAndMessage]:
    """The default rate without a behavior: at most the double, or four."""
    fastest = int(max(_SCALE_UP_LIMIT_FACTOR * current, _SCALE_UP_LIMIT_MINIMUM))
    if desired < spec.min_replicas:
        return spec.min_replicas, _TOO_FEW
    if desired > min(spec.max_replicas, fastest):
        if spec.max_replicas > fastest:
            return fastest, ("ScaleUpLimit", _TOO_FAST.format("increasing"))
        return spec.max_replicas, _TOO_MANY
    return desired, _WITHIN_RANGE


def _apply_behavior_limits(
    spec: AutoscalerSpec,
    behavior: Behavior,
    current: int,
    desired: int,
    history: ScalingHistory,
    now: float,
) -> tuple[int, ReasonAndMessage]:
    if desired > current:
        fastest = max(
            current, _compute_rate_limit(behavior.scale_up, current, history, now, up=True)
        )
        if desired > min(spec.max_replicas, fastest):
            if spec.max_replicas > fastest:
                return fastest, ("ScaleUpLimit", _TOO_FAST.format("increasing"))
            return spec.max_replicas, _TOO_MANY
    elif desired < current:
        fastest = min(
            current, _compute_rate_limit(behavior.scale_down, current, history, now, up=False)
        )
        if desired < max(spec.min_replicas, fastest):
            if spec.min_replicas < fastest:
                return fastest, ("ScaleDownLimit", _TOO_FAST.format("decreasing"))
            return spec.min_replicas, _TOO_FEW
    return desired, _WITHIN_RANGE


def _compute_rate_limit(
    rules: ScalingRules, current: int, history: ScalingHistory, now: float, *, up: bool
) -> int:
    """The limit of the policies; selectPolicy decides which of them counts."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    limits: list[int] = []
    for policy in rules.policies:
        added = sum(
            m.replicas for m in _select_recent(history.scale_ups, policy.period_seconds, now)
        )
        removed = sum(
            m.replicas for m in _select_recent(history.scale_downs, policy.period_seconds, now)
        )
        before = current - added + removed
        if policy.type == "Pods":
            limits.append(before + policy.value if up else before - policy.value)
        elif up:
            limits.append(math.ceil(before * (1 + policy.value / 100)))
        else:
            limits.append(int(before * (1 - policy.value / 100)))
    selects_max = rules.select_policy != "Min"
    return max(limits) if up is selects_max else min(limits)


def _select_recent(
    moments: tuple[TimedReplicas, ...], seconds: int, now: float
) -> tuple[TimedReplicas, ...]:
    return tuple(each for each in moments if each.time > now - seconds)


def _longest_period(rules: ScalingRules) -> int:
    return max((policy.period_seconds for policy in rules.policies), default=0)
