"""The health of a device over time: problems that fluctuate count with hysteresis. Pure."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kilonova.catalog.xids import XidAction
from kilonova.gpu.devices.model import DeviceHealth, HealthState
from kilonova.gpu.health.problems import Problem, severity

_TRANSIENT = frozenset({XidAction.NONE, XidAction.CHECK_LINK, XidAction.RESTART_APPLICATION})


class HealthSettings(msgspec.Struct, frozen=True):
    """How long a problem that fluctuates lasts before it counts, and goes on to count afterwards,
    in seconds."""

    onset: float = 60.0
    clearance: float = 180.0


DEFAULT = HealthSettings()
IMMEDIATE = HealthSettings(0, 0)
"""For a single look."""


class Observed(msgspec.Struct, frozen=True):
    """A problem that fluctuates: when it was seen first and last, and whether it counts."""

    problem: Problem
    first: float
    last: float
    counts: bool = False


class HealthHistory(msgspec.Struct, frozen=True):
    """The problems of a device that fluctuate, by their key."""

    observed: Mapping[str, Observed] = {}


def assess_device(
    problems: Sequence[Problem],
    history: HealthHistory,
    now: float,
    settings: HealthSettings = DEFAULT,
) -> tuple[DeviceHealth, HealthHistory]:
    """The health of a device with these problems now, and what to remember of them."""
    observed: dict[str, Observed] = {}
    for problem in problems:
        if problem.fluctuates:
            old = history.observed.get(problem.key)
            first = now if old is None else old.first
            counts = (old is not None and old.counts) or now - first >= settings.onset
            observed[problem.key] = Observed(problem, first, now, counts)
    for key, old in history.observed.items():
        if key not in observed and old.counts and now - old.last < settings.clearance:
            observed[key] = old
    counting = [
        *(each for each in problems if not each.fluctuates),
        *(each.problem for each in observed.values() if each.counts),
    ]
    return _summarize(counting), HealthHistory(observed)


def _summarize(problems: Sequence[Problem]) -> DeviceHealth:
    """As healthy as the worst problem; its reasons first."""
    if not problems:
        return DeviceHealth()
    ordered = sorted(problems, key=lambda problem: -severity(problem.state))
    worst = [each for each in ordered if each.state is ordered[0].state]
    health = DeviceHealth(ordered[0].state, tuple(each.text for each in ordered))
    is_transient = all(each.action in _TRANSIENT for each in worst)
    return replace(health, is_transient=is_transient)


def is_usable(health: DeviceHealth) -> bool:
    """Whether pods may get the device."""
    return health.state in (HealthState.HEALTHY, HealthState.DEGRADED)
