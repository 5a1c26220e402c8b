"""Room for a gang by nodes that take pods again, or by new ones."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.explaining.changes import AddNodes, Uncordon
from kilonova.scheduler.core.explaining.nearest import Place, place_of
from kilonova.scheduler.core.explaining.tallies import CORDON
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason, intolerable
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.rooms import fitting

_MOST_UNCORDONED = 16
_MOST_KINDS = 3
_MOST_ADDED = 128
_HOSTNAME = "kubernetes.io/hostname"


def uncordoned(trial: Trial, gang: Gang) -> Iterator[tuple[Uncordon, int]]:
    """The fewest cordoned nodes that will do, those with the most room first."""
    place = place_of(trial, gang)
    shapes = {member.shape for group in gang.groups for member in group.members}
    found: dict[int, int] = {}
    for shape in shapes:
        kept = _only_cordoned(trial, shape)
        for row, room in zip(
            kept.tolist(), fitting(trial.snapshot, shape, kept).tolist(), strict=True
        ):
            if room:
                found[row] = found.get(row, 0) + room
    near = set(place.rows.tolist()) if place is not None else set[int]()
    names = trial.snapshot.names
    order = sorted(found, key=lambda row: (row not in near, -found[row], names[row]))
    order = order[:_MOST_UNCORDONED]
    count = 1
    while order and not trial.spent:
        chosen = order[:count]
        if _fits_open(trial, gang, chosen):
            chosen = _thinned(trial, gang, chosen)
            yield Uncordon(tuple(sorted(names[row] for row in chosen))), len(chosen)
            return
        if count >= len(order):
            return
        count *= 2


def _only_cordoned(trial: Trial, shape: Shape) -> Rows:
    """Rows that a cordon keeps a shape from, and nothing else."""
    snapshot = trial.snapshot
    rows = trial.rows()
    rows = rows[trial.rooms.reasons(shape)[rows] == Reason.TAINT]
    only = [intolerable(shape.tolerations, taints) == (CORDON,) for taints in snapshot.taint_sets]
    return rows[np.array(only, np.bool_)[snapshot.taints[rows]]]


def _fits_open(trial: Trial, gang: Gang, rows: list[int]) -> bool:
    with trial.with_nodes([uncordon(trial.snapshot.node(row)) for row in rows]):
        return trial.fits(gang)


def _thinned(trial: Trial, gang: Gang, rows: list[int]) -> list[int]:
    """Those of some rows that are needed."""
    for row in reversed(rows):
        fewer = [each for each in rows if each != row]
        if fewer and not trial.spent and _fits_open(trial, gang, fewer):
            rows = fewer
    return rows


def uncordon(node: Node) -> Node:
    """A node that takes pods again."""
    return replace(node, taints=tuple(taint for taint in node.taints if taint != CORDON))


def added_nodes(trial: Trial, gang: Gang) -> Iterator[tuple[AddNodes, int]]:
    """The fewest nodes of one of the kinds that are there."""
    place = place_of(trial, gang)
    if place is None or not place.demands:
        return
    best: AddNodes | None = None
    for row in _kinds(trial, place):
        most = (best.count if best is not None else _MOST_ADDED) - 1
        count = _fewest(trial, gang, place, trial.snapshot.node(row), most)
        if count is not None:
            best = AddNodes(count, trial.snapshot.names[row], place.level, place.domain)
    if best is not None:
        like = trial.snapshot.node(trial.snapshot.row(best.like))
        yield best, best.count * _room_when_empty(trial, place.worst.shape, like)


def _kinds(trial: Trial, place: Place) -> list[int]:
    """A row of each kind of node that may take what is lacking, the commonest first."""
    snapshot = trial.snapshot
    demand = place.worst
    rows = place.rows[trial.rooms.reasons(demand.shape)[place.rows] == Reason.FITS]
    if not len(rows):
        return []
    facts = np.vstack(
        [snapshot.allocatable[:, rows], snapshot.layouts[rows], snapshot.taints[rows]]
    )
    kinds: dict[bytes, list[int]] = {}
    for row, fact in zip(rows.tolist(), np.ascontiguousarray(facts.T), strict=True):
        kinds.setdefault(fact.tobytes(), []).append(row)
    names = snapshot.names
    firsts = [(-len(alike), min(alike, key=lambda row: names[row])) for alike in kinds.values()]
    firsts.sort(key=lambda one: (one[0], names[one[1]]))
    return [row for _, row in firsts[:_MOST_KINDS]]


def _fewest(trial: Trial, gang: Gang, place: Place, like: Node, most: int) -> int | None:
    """How many such nodes are needed, tried from below."""
    empty = _room_when_empty(trial, place.worst.shape, like)
    if not empty:
        return None
    failed = max(0, *(-(-demand.lacking // empty) - 1 for demand in place.demands))
    count, found, step = failed + 1, 0, 1
    while count <= most and not trial.spent:
        with trial.with_nodes([another(like, number) for number in range(count)]):
            fits = trial.fits(gang)
        failed, found = (failed, count) if fits else (count, found)
        if found - failed == 1 or (not found and failed > gang.needed):
            break
        count, step = (failed + found) // 2 if found else failed + step, 2 * step
    return found or None


def _room_when_empty(trial: Trial, shape: Shape, like: Node) -> int:
    node = another(like, 0)
    with trial.with_nodes([node]):
        row = np.array([trial.snapshot.row(node.name)], np.intp)
        return int(fitting(trial.snapshot, shape, row)[0])


def another(like: Node, number: int) -> Node:
    """A further node like one that is there."""
    name = f"{like.name}-another-{number}"
    labels = {**like.labels, _HOSTNAME: name} if _HOSTNAME in like.labels else like.labels
    return replace(like, name=name, labels=labels)
