"""Where room could be made for a gang that has none: domains, by how much is missing in each."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from kilonova.scheduler.core.domains import anchored
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import NAME, Codes, Flags, Rows
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.placing import lone
from kilonova.scheduler.core.rooms import Rooms, Scores
from kilonova.scheduler.core.snapshot import Snapshot

_DOMAINS = 16
"""So many domains are compared."""


def likely_domains(snapshot: Snapshot, rooms: Rooms, gang: Gang) -> Iterator[Rows]:
    """The domains in which room could be made for a gang that lack the least."""
    return islice(all_domains(snapshot, rooms, gang), _DOMAINS)


def all_domains(snapshot: Snapshot, rooms: Rooms, gang: Gang) -> Iterator[Rows]:
    """Rows within which room could be made for a gang, those first that lack the least: a node for
    a pod alone, a domain of the level that the gang requires, or all nodes. Where something of the
    gang stands already there is only the domain where it stands."""
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    level = NAME if lone(gang) is not None else _level(gang)
    if not level:
        one = np.zeros(len(rows), np.int32)
        if len(rows) and np.isfinite(_lacking(snapshot, rooms, gang, rows, one)[0]):
            yield rows
        return
    domains = snapshot.labels.domains(level, rows)
    anchors = anchored(snapshot, tree(gang), level)
    inside = domains >= 0 if anchors is None else np.isin(domains, anchors[anchors >= 0])
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return
    lacking = _lacking(snapshot, rooms, gang, rows, domains)
    names = snapshot.labels.column(level).values
    able = np.flatnonzero(np.isfinite(lacking)).tolist()
    for domain in sorted(able, key=lambda one: (lacking[one], names[one])):
        yield rows[domains == domain]


def _lacking(snapshot: Snapshot, rooms: Rooms, gang: Gang, rows: Rows, domains: Codes) -> Scores:
    """By domain, which part of what the gang needs is not free; infinite where it could never
    stand."""
    count = int(domains.max()) + 1
    lacking = np.zeros(count)
    needs: dict[str, int] = {}
    for group in gang.groups:
        for member in group.members[: group.needed]:
            for name, amount in member.shape.requests:
                needs[name] = needs.get(name, 0) + amount
    allowed = _allowed(rooms, gang, rows)
    for name, need in needs.items():
        column = snapshot.column(name)
        total = np.bincount(
            domains, weights=snapshot.allocatable[column, rows] * allowed, minlength=count
        )
        free = np.bincount(domains, weights=snapshot.free[column, rows] * allowed, minlength=count)
        lacking[total < need] = np.inf
        if need:
            lacking = np.maximum(lacking, (need - free) / need)
    return lacking


def _allowed(rooms: Rooms, gang: Gang, rows: Rows) -> Flags:
    allowed = np.zeros(len(rows), np.bool_)
    for shape in {m.shape for group in gang.groups for m in group.members[: group.needed]}:
        allowed |= rooms.reasons(shape)[rows] == Reason.FITS
    return allowed


def _level(gang: Gang) -> str:
    """The level within one domain of which a gang must stand."""
    only = gang.groups[0].pack.required if len(gang.groups) == 1 else ""
    return gang.pack.required or only
