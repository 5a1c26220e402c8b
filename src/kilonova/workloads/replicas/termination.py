"""What must be started anew because it has lacked pods for too long. Pure.

Only what was well in its present incarnation can break: what never came up waits, and what was
just started anew is given the time it needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodClique, names
from kilonova.api.times import later, parse_time
from kilonova.workloads.cliques.completion import FAILED
from kilonova.workloads.conditions import BREACHED, find_condition, holds
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.replicas.groupstatus import TERMINATING
from kilonova.workloads.replicas.observed import Observed, is_going
from kilonova.workloads.replicas.units import Unit, Units
from kilonova.workloads.sets.desire import is_updating, waits_for_deletion
from kilonova.workloads.templates.lookup import cliques_alone

_USUAL_DELAY = "4h"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is started anew now."""

    cliques: frozenset[str] = frozenset()
    """Full names."""
    units: tuple[tuple[str, int], ...] = ()
    """Replicas of scaling groups, where those suffice: full name of the group, index."""
    whole: bool = False
    """Whether it is all of the set's replica."""
    after: float | None = None
    """Seconds until there may be more to start anew."""


def judge(seen: Observed, groups: Sequence[Units], now: datetime) -> Verdict:
    """What has been broken for longer than the set allows.

    A group of which enough replicas are well loses only the broken ones. Otherwise, or where a
    clique that stands alone is broken, all of the set's replica is started anew, unless a clique
    of it is missing or it is just being updated.
    """
    if is_updating(seen.set_, seen.index) and not waits_for_deletion(seen.set_):
        return Verdict()
    delay = parse_duration(seen.set_.spec.template.termination_delay or _USUAL_DELAY)
    waits: list[float] = []

    def is_over(since: datetime) -> bool:
        left = (later(since, delay) - now).total_seconds()
        if left > 0:
            waits.append(left)
        return left <= 0

    broken_units: list[tuple[str, Unit]] = []
    is_lost = False
    for group in groups:
        if group.unbroken >= group.needed:
            for unit, since in _broken_units(group):
                if is_over(since):
                    broken_units.append((group.name, unit))
        else:
            since = _broken_group(group)
            is_lost |= since is not None and is_over(since)
            is_lost |= _is_half_done(group)
    alone = _standalone_cliques(seen)
    if alone is None:
        is_lost = False
    else:
        for clique in alone:
            since = broken_since(clique)
            is_lost |= since is not None and is_over(since)
    if is_lost:
        live = (each for each in seen.cliques.values() if not is_going(each.metadata))
        return Verdict(frozenset(each.metadata.name for each in live), whole=True)
    return Verdict(
        cliques=frozenset(name for _, unit in broken_units for name in unit.cliques),
        units=tuple((group, unit.index) for group, unit in broken_units),
        after=min(waits, default=None),
    )


def broken_since(clique: PodClique) -> datetime | None:
    """Since when a clique is broken; one that has failed for good is left alone."""
    if holds(clique.status.conditions, FAILED):
        return None
    found = find_condition(clique.status.conditions, BREACHED)
    if found is None or found.status != "True" or not found.last_transition_time:
        return None
    if clique.status.healthy_incarnation != incarnation_of(clique.metadata):
        return None
    return parse_time(found.last_transition_time)


def _standalone_cliques(seen: Observed) -> list[PodClique] | None:
    """The cliques in no group; None where one is missing."""
    result: list[PodClique] = []
    for name in cliques_alone(seen.set_.spec.template):
        clique = seen.cliques.get(names.clique(seen.set_.metadata.name, seen.index, name))
        if clique is None or is_going(clique.metadata):
            return None
        result.append(clique)
    return result


def _broken_units(group: Units) -> Iterator[tuple[Unit, datetime]]:
    for unit in group.units:
        times = [since for each in unit.cliques.values() if (since := broken_since(each))]
        if times:
            yield unit, min(times)


def _broken_group(group: Units) -> datetime | None:
    """Since when too few replicas of a group are well; None if there never were enough."""
    times = sorted(since for _, since in _broken_units(group))
    once_well = group.unbroken + len(times)
    return times[once_well - group.needed] if once_well >= group.needed else None


def _is_half_done(group: Units) -> bool:
    """Whether all was being started anew, and not all has been.

    What has is not well yet, so that too few seem ever to have been.
    """
    told = () if group.group is None else group.group.status.conditions
    begun = find_condition(told, TERMINATING)
    if begun is None or begun.status != "True" or not begun.last_transition_time:
        return False
    start = parse_time(begun.last_transition_time)
    return any(since <= start for _, since in _broken_units(group))
