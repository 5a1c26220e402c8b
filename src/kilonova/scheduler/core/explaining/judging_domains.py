"""Which of the constraints about domains and neighbours keeps a gang from its place."""

import numpy as np

from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.constraints import (
    Constraint,
    constraints,
    part_of,
)
from kilonova.scheduler.core.explaining.nearest import nearest
from kilonova.scheduler.core.explaining.tallies import NEIGHBOURLY, tally
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Gang, Group


def domains_that_bind(trial: Trial, gang: Gang) -> Binding:
    """One of the constraints about domains binds, since without all of them the gang fits."""
    all_of_them = constraints(gang)
    alone = (each for each in all_of_them if trial.fits_loosened(gang, each))
    constraint = next(alone, all_of_them[-1])
    match constraint.whose:
        case "Apart":
            return _apart(gang, constraint)
        case "Segments":
            return _segments(trial, gang, constraint)
        case "Neighbours":
            group = next(each for each in gang.groups if each.name in constraint.groups)
            return neighbours_that_bind(trial, group)
        case "Gang" | "Bundle" | "Group":
            return _within(trial, gang, constraint)


def neighbours_that_bind(trial: Trial, group: Group) -> Binding:
    counts = tally(trial, group.name, group.members[0]).counts
    said = [f"{each.nodes} {each.text}" for each in counts if each.reason in NEIGHBOURLY]
    text = f"pods of group {group.name} and others have rules about each other"
    text += f": {'; '.join(said)}" if said else " that leave no place for all of them"
    return Binding("Neighbours", text, group=group.name, wanted=group.needed)


def _apart(gang: Gang, constraint: Constraint) -> Binding:
    text = f"no {constraint.level} has room for it where no gang stands that it keeps apart from"
    return Binding("Apart", text, level=constraint.level, wanted=gang.needed)


def _segments(trial: Trial, gang: Gang, constraint: Constraint) -> Binding:
    group = next(each for each in gang.groups if each.name in constraint.groups)
    assert group.segments is not None
    size, level = group.segments.size, group.segments.level
    rows = trial.rows()
    domains = trial.snapshot.labels.domains(level, rows)
    rooms = trial.rooms.room(group.members[0].shape)[rows]
    inside = domains >= 0
    whole = int((np.bincount(domains[inside], weights=rooms[inside]) // size).sum())
    wanted = -(-group.needed // size)
    text = (
        f"{wanted} segments of {wording.pods(size)} of group {group.name} must each stand within "
        f"one {level}, and there is room for {min(whole, wanted)}"
    )
    return Binding(
        "Segments",
        text,
        group=group.name,
        level=level,
        wanted=wanted,
        room=min(whole, wanted),
    )


def _within(trial: Trial, gang: Gang, constraint: Constraint) -> Binding:
    level = constraint.level
    part = part_of(gang, constraint)
    place = None if part is None else nearest(trial, part, level)
    if place is None:
        text = f"no {level} may hold {constraint.who}: no node has that label"
        if part is not None and part.anchors:
            text = f"{constraint.who} stands in more than one {level} already"
        return Binding("Topology", text, level=level)
    wanted = sum(demand.wanted for demand in place.demands)
    room = sum(min(demand.wanted, demand.room) for demand in place.demands)
    group = place.demands[0].group if len({each.group for each in place.demands}) == 1 else ""
    whom = f"all {wording.pods(wanted)} of {f'group {group}' if group else constraint.who}"
    where = f"{place.domain} has room for {room}"
    if not place.lacking:
        where = f"{place.domain} has room for each group, but not for all together"
        if group:
            where = f"{place.domain} has it, but not beside the rest of the gang"
    text = f"no {level} has room for {whom}: {where}"
    if place.anchored:
        text = f"{whom} must stand in {level} {place.domain}, where some stand already: {where}"
    return Binding(
        "Topology",
        text,
        group=group,
        level=level,
        domain=place.domain,
        wanted=wanted,
        room=room,
    )
