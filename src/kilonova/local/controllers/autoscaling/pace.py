"""How fast an autoscaler goes: what it recommended and did lately bounds what it does now. Pure.

A `History` is what there is to remember of one autoscaler. It is gone after a restart, and begins
anew with the number of replicas found: nothing is scaled down before the window has passed again.
"""

import math
from dataclasses import dataclass, replace

from kilonova.local.controllers.autoscaling.objects import AutoscalerSpec, Behavior, Rules

_WINDOW = 300
_MOST_AT_ONCE = 2.0
_LEAST_AT_ONCE = 4
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST = "the desired replica count is {} faster than the maximum scale rate"
_HIGHEST = "recent recommendations were higher than current one, applying the highest recent"
_LOWEST = "recent recommendations were lower than current one, applying the lowest recent"

Words = tuple[str, str]
"""Reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A number of replicas, recommended or changed by, at a time that only goes forward."""

    time: float
    replicas: int


@dataclass(frozen=True, slots=True)
class History:
    """What was recommended, and by how much the number went up and down."""

    recommended: tuple[Moment, ...] = ()
    ups: tuple[Moment, ...] = ()
    downs: tuple[Moment, ...] = ()

    def scaled(self, before: int, after: int, behavior: Behavior | None, now: float) -> "History":
        """With a change of the number; only behaviors ask for it later."""
        if behavior is None:
            return self
        change = Moment(now, abs(after - before))
        if after > before:
            kept = _within(self.ups, _longest(behavior.scale_up), now)
            return replace(self, ups=(*kept, change))
        kept = _within(self.downs, _longest(behavior.scale_down), now)
        return replace(self, downs=(*kept, change))


@dataclass(frozen=True, slots=True)
class Paced:
    """How many replicas to go to now, and what the conditions say about it."""

    replicas: int
    able: Words
    limited: Words
    is_limited: bool
    history: History


def paced(spec: AutoscalerSpec, current: int, wanted: int, history: History, now: float) -> Paced:
    """Bring what metrics ask for within the bounds and rates of an autoscaler."""
    behavior = spec.behavior
    windows = _windows(behavior)
    stable, steadied = _stabilized(behavior, current, wanted, history, windows, now)
    able = ("ReadyForNewScale", "recommended size matches current size")
    kept = _within(history.recommended, max(windows), now)
    after = replace(history, recommended=(*kept, Moment(now, wanted)))
    if behavior is None:
        replicas, limited = _bounded(spec, current, stable)
    else:
        replicas, limited = _rated(spec, behavior, current, stable, history, now)
    return Paced(
        replicas, steadied if stable != wanted else able, limited, replicas != stable, after
    )


def _windows(behavior: Behavior | None) -> tuple[int, int]:
    """For how many seconds recommendations hold the number back: going up, going down."""
    if behavior is None:
        return 0, _WINDOW
    down = behavior.scale_down.stabilization_window_seconds
    return behavior.scale_up.stabilization_window_seconds or 0, _WINDOW if down is None else down


def _stabilized(
    behavior: Behavior | None,
    current: int,
    wanted: int,
    history: History,
    windows: tuple[int, int],
    now: float,
) -> tuple[int, Words]:
    up, down = windows
    highest = max((m.replicas for m in _within(history.recommended, down, now)), default=wanted)
    steadied = ("ScaleDownStabilized", f"{_HIGHEST} recommendation")
    if behavior is None:
        return max(wanted, highest), steadied
    lowest = min((m.replicas for m in _within(history.recommended, up, now)), default=wanted)
    stable = min(max(current, min(wanted, lowest)), max(wanted, highest))
    if wanted >= current:
        steadied = ("ScaleUpStabilized", f"{_LOWEST} recommendation")
    return stable, steadied


def _bounded(spec: AutoscalerSpec, current: int, wanted: int) -> tuple[int, Words]:
    """The rates of an autoscaler without a behavior: at most twice as many at a time, or four."""
    fastest = int(max(_MOST_AT_ONCE * current, _LEAST_AT_ONCE))
    if wanted < spec.min_replicas:
        return spec.min_replicas, _TOO_FEW
    if wanted > min(spec.max_replicas, fastest):
        if spec.max_replicas > fastest:
            return fastest, ("ScaleUpLimit", _TOO_FAST.format("increasing"))
        return spec.max_replicas, _TOO_MANY
    return wanted, _WITHIN


def _rated(
    spec: AutoscalerSpec,
    behavior: Behavior,
    current: int,
    wanted: int,
    history: History,
    now: float,
) -> tuple[int, Words]:
    if wanted > current:
        fastest = max(current, _limit(behavior.scale_up, current, history, now, up=True))
        if wanted > min(spec.max_replicas, fastest):
            if spec.max_replicas > fastest:
                return fastest, ("ScaleUpLimit", _TOO_FAST.format("increasing"))
            return spec.max_replicas, _TOO_MANY
    elif wanted < current:
        fastest = min(current, _limit(behavior.scale_down, current, history, now, up=False))
        if wanted < max(spec.min_replicas, fastest):
            if spec.min_replicas < fastest:
                return fastest, ("ScaleDownLimit", _TOO_FAST.format("decreasing"))
            return spec.min_replicas, _TOO_FEW
    return wanted, _WITHIN


def _limit(rules: Rules, current: int, history: History, now: float, *, up: bool) -> int:
    """How far policies let the number go; which of them counts is a choice of the rules."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    limits: list[int] = []
    for policy in rules.policies:
        added = sum(m.replicas for m in _within(history.ups, policy.period_seconds, now))
        removed = sum(m.replicas for m in _within(history.downs, policy.period_seconds, now))
        before = current - added + removed
        if policy.type == "Pods":
            limits.append(before + policy.value if up else before - policy.value)
        elif up:
            limits.append(math.ceil(before * (1 + policy.value / 100)))
        else:
            limits.append(int(before * (1 - policy.value / 100)))
    farthest = rules.select_policy != "Min"
    return max(limits) if up is farthest else min(limits)


def _within(moments: tuple[Moment, ...], seconds: int, now: float) -> tuple[Moment, ...]:
    return tuple(each for each in moments if each.time > now - seconds)


def _longest(rules: Rules) -> int:
    return max((policy.period_seconds for policy in rules.policies), default=0)
