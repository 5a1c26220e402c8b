"""Which domains could hold a part of a gang, the tightest first.

A bound that is cheap for all domains at once leaves only those that are worth trying: every group
has room there by itself, and all that the part asks for together is free there.
"""

from collections import Counter

import numpy as np

from kilonova.scheduler.core.labels import ABSENT, Codes, Flags, Rows
from kilonova.scheduler.core.parts import Part
from kilonova.scheduler.core.rooms import Counts, Rooms
from kilonova.scheduler.core.snapshot import Snapshot


def candidates(snapshot: Snapshot, rooms: Rooms, part: Part, level: str, rows: Rows) -> list[Rows]:
    """Rows of each domain of a level that could hold a part, those with least to spare first.

    Where something of the part stands already there is only the domain where it stands.
    """
    domains = snapshot.labels.domains(level, rows)
    anchors = anchored(snapshot, part, level)
    inside = domains >= 0
    if anchors is not None:
        inside &= np.isin(domains, anchors) if len(anchors) == 1 else False
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return []
    # Values that no node has any more are domains without rows, which would hold what needs none.
    able = np.bincount(domains) > 0
    spare = np.zeros(len(able), np.float64)
    for leaf in part.leaves():
        ok, room = _holds(snapshot, rooms, leaf, rows, domains, len(able))
        able &= ok
        spare += room
    able &= _enough(snapshot, part, rows, domains, len(able))
    order = np.argsort(domains, kind="stable")
    starts = np.searchsorted(domains[order], np.arange(len(able) + 1))
    names = snapshot.labels.column(level).values
    chosen = sorted(np.flatnonzero(able).tolist(), key=lambda one: (spare[one], names[one]))
    return [rows[order[starts[one] : starts[one + 1]]] for one in chosen]


def could_hold(snapshot: Snapshot, rooms: Rooms, part: Part, rows: Rows) -> bool:
    """Whether rows are worth trying for a part: the same bound for all of them as one domain."""
    if part.pack.required:
        return bool(candidates(snapshot, rooms, part, part.pack.required, rows))
    one = np.zeros(len(rows), np.int32)
    return (
        bool(len(rows))
        and bool(_enough(snapshot, part, rows, one, 1)[0])
        and all(_holds(snapshot, rooms, leaf, rows, one, 1)[0][0] for leaf in part.leaves())
    )


def anchored(snapshot: Snapshot, part: Part, level: str) -> Codes | None:
    """Domains of a level in which something of a part stands already; None if nothing does."""
    stand = [snapshot.row(node) for node in part.anchors if node in snapshot]
    if not stand:
        return None
    return np.unique(snapshot.labels.domains(level, np.array(stand, np.intp)))


def _holds(
    snapshot: Snapshot, rooms: Rooms, leaf: Part, rows: Rows, domains: Codes, count: int
) -> tuple[Flags, Counts]:
    """In which domains a group has room by itself, and how much."""
    able = np.ones(count, np.bool_)
    spare = np.zeros(count, np.int64)
    for shape, number in leaf.wanted:
        room = rooms.room(shape)[rows]
        total = np.bincount(domains, weights=room, minlength=count).astype(np.int64)
        spare += total
        able &= total >= number
        if leaf.pack.required:
            narrow = snapshot.labels.domains(leaf.pack.required, rows)
            enough = _somewhere(narrow, room, number)
            able &= np.bincount(domains, weights=enough, minlength=count) > 0
    return able, spare


def _somewhere(narrow: Codes, room: Counts, number: int) -> Flags:
    """Rows that stand in a domain with enough room."""
    inside = narrow != ABSENT
    if not inside.any():
        return inside
    total = np.bincount(narrow[inside], weights=room[inside])
    return inside & (total[np.maximum(narrow, 0)] >= number)


def _enough(snapshot: Snapshot, part: Part, rows: Rows, domains: Codes, count: int) -> Flags:
    """Where so much of every resource is free as all groups of a part need together, in pieces that
    are large enough: so many pods that ask for at least so much."""
    pieces: dict[str, Counter[int]] = {}
    wanted = [each for leaf in part.leaves() for each in leaf.wanted]
    for shape, number in wanted:
        for name, amount in shape.requests:
            pieces.setdefault(name, Counter())[amount] += number
    able = np.ones(count, np.bool_)
    for name, amounts in pieces.items():
        column = snapshot.column(name)  # which may make the table another one
        free = np.maximum(snapshot.free[column, rows], 0)
        asked = sum(amount * number for amount, number in amounts.items())
        able &= np.bincount(domains, weights=free, minlength=count) >= asked * _ROUNDING
        if len(wanted) > 1:
            pods = 0
            for amount in sorted(amounts, reverse=True):
                pods += amounts[amount]
                if amount > 0:
                    able &= np.bincount(domains, weights=free // amount, minlength=count) >= pods
    return able


_ROUNDING = 1 - 1e-9
"""Sums of bytes over many nodes are not exact; this is a bound, and must never be too strict."""
