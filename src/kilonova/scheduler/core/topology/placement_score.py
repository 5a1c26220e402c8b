"""The placement score of a gang: how compact it is, compared with the best possible placement."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import Counts
from kilonova.scheduler.core.filters.node_filters import FilterReason, filter_nodes
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.label_columns import NODE_NAME, Codes, Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot


def compute_placement_score(
    snapshot: Snapshot, placements: Iterable[PodPlacement], levels: Sequence[str]
) -> float | None:
    """1 if the pods use as few domains of each level, and as few nodes, as they would on empty
    nodes; otherwise the mean over the levels of the ratio between both numbers. None where the best
    placement is unknown: pods with affinity rules, with claims, or with MIG instances or
    memory-sized fractions, whose number differs from node to node."""
    placed_pods = list(placements)
    shapes = Counter(placement.shape for placement in placed_pods)
    if not placed_pods or not all(_is_comparable(shape) for shape in shapes):
        return None
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    placed_rows = np.array([placement.row for placement in placed_pods], np.intp)
    capacity = {shape: _count_pods_on_empty(snapshot, shape, rows) for shape in shapes}
    shares = [
        _fewest_domains(snapshot, shapes, capacity, level, rows) / used
        for level in (*levels, NODE_NAME)
        if (used := _count_domains(snapshot, level, placed_rows)) > 0
    ]
    return round(float(np.mean(np.minimum(shares, 1.0))), 3)


def _is_comparable(shape: Shape) -> bool:
    in_parts = shape.gpu is not None and (shape.gpu.profile or not shape.gpu.milli)
    return shape.pod_rules is None and not shape.claims and not in_parts


def _count_pods_on_empty(snapshot: Snapshot, shape: Shape, rows: Rows) -> Counts:
    """How many pods of a shape would fit on each node if it were empty."""
    capacity = np.full(len(rows), np.iinfo(np.int64).max, np.int64)
    for name, amount in shape.requests:
        if amount > 0:
            capacity = np.minimum(
                capacity, snapshot.allocatable[snapshot.column(name), rows] // amount
            )
    if shape.gpu is not None and not shape.gpu.is_whole:
        slots = snapshot.allocatable[snapshot.resources[GPU], rows] * (
            MILLI_PER_GPU // shape.gpu.milli
        )
        capacity = np.minimum(capacity, slots // shape.gpu.count)
    return np.where(filter_nodes(snapshot, shape, rows) == FilterReason.FITS, capacity, 0)


def _count_domains(snapshot: Snapshot, level: str, placed_rows: Rows) -> int:
    """Number of domains that pods use; a node without the label counts as a domain of its own. 0 if
    all are."""
    domains = snapshot.labels.domains(level, placed_rows)
    if (domains < 0).all():
        return 0
    return len(np.unique(domains[domains >= 0])) + len(np.unique(placed_rows[domains < 0]))


def _fewest_domains(
    snapshot: Snapshot,
    shapes: Counter[Shape],
    capacity: dict[Shape, Counts],
    level: str,
    rows: Rows,
) -> int:
    """The lower bound of the number of domains: for each shape by itself, and for each resource."""
    domains = snapshot.labels.domains(level, rows) + 1
    needs: Counter[str] = Counter()
    feasible = np.zeros(len(rows), np.bool_)
    least = 1
    for shape, count in shapes.items():
        feasible |= capacity[shape] > 0
        least = max(least, _fewest_domains_for(domains, np.minimum(capacity[shape], count), count))
        needs.update({name: amount * count for name, amount in shape.requests})
    for name, need in needs.items():
        amounts = np.where(feasible, snapshot.allocatable[snapshot.column(name), rows], 0)
        least = max(least, _fewest_domains_for(domains, amounts, need))
    return least


def _fewest_domains_for(domains: Codes, amounts: Counts, need: int) -> int:
    """How many of the largest domains are needed for an amount; rows without a domain do not
    count."""
    sums = np.bincount(domains, weights=amounts)[1:]
    total = np.cumsum(-np.sort(-sums))
    return min(int(np.searchsorted(total, need * _ROUNDING)) + 1, len(total))


_ROUNDING = 1 - 1e-9
"""Sums of bytes over many nodes are not exact in floating point."""
