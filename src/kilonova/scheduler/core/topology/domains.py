"""Which domains could hold a gang part, the tightest first.

A bound computed for all domains at once leaves only those worth trying: every group of the part
fits there by itself, and the domain has enough of every resource for all groups together.
"""

from collections import Counter

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Counts, FeasibilityCache
from kilonova.scheduler.core.model.label_columns import ABSENT, Codes, Flags, Rows
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.topology.gang_tree import GangPart


def candidate_domains(
    snapshot: Snapshot, feasibility: FeasibilityCache, part: GangPart, level: str, rows: Rows
) -> list[Rows]:
    """Rows of each domain of a level that could hold a part, those with least free capacity first.

    If pods of the part are already placed, their domain is the only candidate.
    """
    domains = snapshot.labels.domains(level, rows)
    anchors = anchor_domains(snapshot, part, level)
    inside = domains >= 0
    if anchors is not None:
        inside &= np.isin(domains, anchors) if len(anchors) == 1 else False
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return []
    # A label value that no node has any more is a domain without rows.
    feasible = np.bincount(domains) > 0
    spare = np.zeros(len(feasible), np.float64)
    for leaf in part.leaves():
        ok, capacity = _domains_with_capacity(
            snapshot, feasibility, leaf, rows, domains, len(feasible)
        )
        feasible &= ok
        spare += capacity
    feasible &= _domains_with_resources(snapshot, part, rows, domains, len(feasible))
    order = np.argsort(domains, kind="stable")
    starts = np.searchsorted(domains[order], np.arange(len(feasible) + 1))
    names = snapshot.labels.column(level).values
    chosen = sorted(
        np.flatnonzero(feasible).tolist(), key=lambda domain: (spare[domain], names[domain])
    )
    return [rows[order[starts[domain] : starts[domain + 1]]] for domain in chosen]


def can_hold(snapshot: Snapshot, feasibility: FeasibilityCache, part: GangPart, rows: Rows) -> bool:
    """Whether rows are worth trying for a part: the same bound, with all rows as one domain."""
    if part.pack.required:
        return bool(candidate_domains(snapshot, feasibility, part, part.pack.required, rows))
    domain = np.zeros(len(rows), np.int32)
    return (
        bool(len(rows))
        and bool(_domains_with_resources(snapshot, part, rows, domain, 1)[0])
        and all(
            _domains_with_capacity(snapshot, feasibility, leaf, rows, domain, 1)[0][0]
            for leaf in part.leaves()
        )
    )


def anchor_domains(snapshot: Snapshot, part: GangPart, level: str) -> Codes | None:
    """Domains of a level in which pods of a part are already placed; None if none is."""
    anchors = [snapshot.row(node) for node in part.anchor_nodes if node in snapshot]
    if not anchors:
        return None
    return np.unique(snapshot.labels.domains(level, np.array(anchors, np.intp)))


def _domains_with_capacity(
    snapshot: Snapshot,
    feasibility: FeasibilityCache,
    leaf: GangPart,
    rows: Rows,
    domains: Codes,
    count: int,
) -> tuple[Flags, Counts]:
    """In which domains a group fits by itself, and their free capacity for it."""
    feasible = np.ones(count, np.bool_)
    spare = np.zeros(count, np.int64)
    for shape, number in leaf.required_shapes:
        capacity = feasibility.free_capacity(shape)[rows]
        total = np.bincount(domains, weights=capacity, minlength=count).astype(np.int64)
        spare += total
        feasible &= total >= number
        if leaf.pack.required:
            narrow = snapshot.labels.domains(leaf.pack.required, rows)
            enough = _rows_with_capacity(narrow, capacity, number)
            feasible &= np.bincount(domains, weights=enough, minlength=count) > 0
    return feasible, spare


def _rows_with_capacity(narrow: Codes, free_capacity: Counts, number: int) -> Flags:
    """Rows in a domain with enough free capacity."""
    inside = narrow != ABSENT
    if not inside.any():
        return inside
    total = np.bincount(narrow[inside], weights=free_capacity[inside])
    return inside & (total[np.maximum(narrow, 0)] >= number)


def _domains_with_resources(
    snapshot: Snapshot, part: GangPart, rows: Rows, domains: Codes, count: int
) -> Flags:
    """Domains with enough of every resource free for all groups of a part together, in large enough
    pieces: for each amount, enough slots for the pods that request at least that amount."""
    pieces: dict[str, Counter[int]] = {}
    wanted = [each for leaf in part.leaves() for each in leaf.required_shapes]
    for shape, number in wanted:
        for name, amount in shape.requests:
            pieces.setdefault(name, Counter())[amount] += number
    feasible = np.ones(count, np.bool_)
    for name, amounts in pieces.items():
        column = snapshot.column(name)  # may replace the array
        free = np.maximum(snapshot.free[column, rows], 0)
        requested = sum(amount * number for amount, number in amounts.items())
        feasible &= np.bincount(domains, weights=free, minlength=count) >= requested * _ROUNDING
        if len(wanted) > 1:
            pods = 0
            for amount in sorted(amounts, reverse=True):
                pods += amounts[amount]
                if amount > 0:
                    feasible &= (
                        np.bincount(domains, weights=free // amount, minlength=count) >= pods
                    )
    return feasible


_ROUNDING = 1 - 1e-9
"""Sums of bytes over many nodes are not exact in floating point; this bound must never be too
strict."""
