"""Where a part of a gang lacks the least: the domain, and how many pods of each group it lacks."""

from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.domains import anchored
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Flags, Rows
from kilonova.scheduler.core.parts import Part, tree
from kilonova.scheduler.core.rooms import Counts


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one shape of a group, and for how many there is room by themselves."""

    group: str
    shape: Shape
    wanted: int
    room: int

    @property
    def lacking(self) -> int:
        return max(0, self.wanted - self.room)


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes of one domain, or all where no level is required."""

    level: str
    domain: str
    rows: Rows
    demands: tuple[Demand, ...]
    anchored: bool = False
    """Something of the part stands there already."""

    @property
    def lacking(self) -> int:
        return sum(demand.lacking for demand in self.demands)

    @property
    def worst(self) -> Demand:
        """What lacks the most."""
        return max(self.demands, key=lambda demand: (demand.lacking, demand.wanted))


def everywhere(trial: Trial, part: Part) -> Place:
    """What a part lacks if it may stand on all nodes."""
    rows = trial.rows()
    demands = [
        Demand(group, shape, wanted, int(trial.rooms.room(shape)[rows].sum()))
        for group, shape, wanted in _wanted(part)
    ]
    return Place("", "", rows, tuple(demands))


def nearest(trial: Trial, part: Part, level: str) -> Place | None:
    """The domain of a level where a part lacks the least; None if there is no domain for it."""
    return next(iter(_nearest(trial, part, level, 1)), None)


def _nearest(trial: Trial, part: Part, level: str, most: int) -> list[Place]:
    """The domains of a level where a part lacks the least."""
    snapshot = trial.snapshot
    rows = trial.rows()
    domains = snapshot.labels.domains(level, rows)
    inside = domains >= 0
    anchors = anchored(snapshot, part, level)
    if anchors is not None:
        inside &= np.isin(domains, anchors) if len(anchors) == 1 else False
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return []
    names = snapshot.labels.column(level).values
    there: Flags = np.bincount(domains, minlength=len(names)) > 0
    lacking: Counts = np.zeros(len(names), np.int64)
    totals: list[Counts] = []
    for _, shape, wanted in _wanted(part):
        room = trial.rooms.room(shape)[rows]
        total = np.bincount(domains, weights=room, minlength=len(names)).astype(np.int64)
        lacking += np.maximum(0, wanted - total)
        totals.append(total)
    order = sorted(np.flatnonzero(there).tolist(), key=lambda one: (int(lacking[one]), names[one]))
    return [
        Place(
            level,
            names[domain],
            rows[domains == domain],
            tuple(
                Demand(group, shape, wanted, int(total[domain]))
                for (group, shape, wanted), total in zip(_wanted(part), totals, strict=True)
            ),
            anchors is not None,
        )
        for domain in order[:most]
    ]


def place_of(trial: Trial, gang: Gang) -> Place | None:
    """Where a gang as a whole lacks the least: in a domain of the level that it requires, or that
    its only group does, else anywhere."""
    return next(iter(places_of(trial, gang, 1)), None)


def places_of(trial: Trial, gang: Gang, most: int) -> list[Place]:
    """The domains in which a gang as a whole lacks the least."""
    root = tree(gang)
    part = root if root.pack.required or len(root.children) != 1 else root.children[0]
    level = part.pack.required
    return _nearest(trial, part, level, most) if level else [everywhere(trial, root)]


def _wanted(part: Part) -> list[tuple[str, Shape, int]]:
    return [
        (leaf.group.name, shape, wanted)
        for leaf in part.leaves()
        if leaf.group is not None
        for shape, wanted in leaf.wanted
    ]
