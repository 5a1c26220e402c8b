"""Capacity for a gang by uncordoning nodes, or by adding new ones."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.explain.changes.change import AddNodes, Uncordon
from kilonova.scheduler.core.explain.diagnosis import CORDON_TAINT
from kilonova.scheduler.core.explain.nearest_domain import CandidateDomain, find_gang_domain
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.feasibility import count_fitting
from kilonova.scheduler.core.filters.node_filters import FilterReason, untolerated_taints
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import Shape

_MAX_UNCORDONED = 16
_MAX_NODE_KINDS = 3
_MAX_ADDED = 128
_HOSTNAME = "kubernetes.io/hostname"


def propose_uncordon(trial: TrialCluster, gang: Gang) -> Iterator[tuple[Uncordon, int]]:
    """The fewest cordoned nodes that suffice, those with most free capacity first."""
    domain = find_gang_domain(trial, gang)
    shapes = {member.shape for group in gang.groups for member in group.members}
    found: dict[int, int] = {}
    for shape in shapes:
        cordoned = _find_only_cordoned(trial, shape)
        for row, capacity in zip(
            cordoned.tolist(), count_fitting(trial.snapshot, shape, cordoned).tolist(), strict=True
        ):
            if capacity:
                found[row] = found.get(row, 0) + capacity
    near = set(domain.rows.tolist()) if domain is not None else set[int]()
    names = trial.snapshot.names
    order = sorted(found, key=lambda row: (row not in near, -found[row], names[row]))
    order = order[:_MAX_UNCORDONED]
    count = 1
    while order and not trial.is_exhausted:
        chosen = order[:count]
        if _fits_uncordoned(trial, gang, chosen):
            chosen = _drop_unneeded(trial, gang, chosen)
            yield Uncordon(tuple(sorted(names[row] for row in chosen))), len(chosen)
            return
        if count >= len(order):
            return
        count *= 2


def _find_only_cordoned(trial: TrialCluster, shape: Shape) -> Rows:
    """Rows that are infeasible for a shape only because they are cordoned."""
    snapshot = trial.snapshot
    rows = trial.live_rows()
    rows = rows[trial.feasibility.rejection_reasons(shape)[rows] == FilterReason.TAINT]
    only = [
        untolerated_taints(shape.tolerations, taints) == (CORDON_TAINT,)
        for taints in snapshot.taint_sets
    ]
    return rows[np.array(only, np.bool_)[snapshot.taints[rows]]]


def _fits_uncordoned(trial: TrialCluster, gang: Gang, rows: list[int]) -> bool:
    with trial.with_nodes([without_cordon(trial.snapshot.node(row)) for row in rows]):
        return trial.fits(gang)


def _drop_unneeded(trial: TrialCluster, gang: Gang, rows: list[int]) -> list[int]:
    """Those of some rows that are needed."""
    for row in reversed(rows):
        fewer = [each for each in rows if each != row]
        if fewer and not trial.is_exhausted and _fits_uncordoned(trial, gang, fewer):
            rows = fewer
    return rows


def without_cordon(node: Node) -> Node:
    """The node without its cordon."""
    return replace(node, taints=tuple(taint for taint in node.taints if taint != CORDON_TAINT))


def propose_added_nodes(trial: TrialCluster, gang: Gang) -> Iterator[tuple[AddNodes, int]]:
    """The fewest nodes of one of the existing kinds."""
    domain = find_gang_domain(trial, gang)
    if domain is None or not domain.demands:
        return
    best: AddNodes | None = None
    for row in _list_node_kinds(trial, domain):
        most = (best.count if best is not None else _MAX_ADDED) - 1
        count = _find_fewest(trial, gang, domain, trial.snapshot.node(row), most)
        if count is not None:
            best = AddNodes(count, trial.snapshot.names[row], domain.level, domain.domain)
    if best is not None:
        like = trial.snapshot.node(trial.snapshot.row(best.template_node))
        yield best, best.count * _capacity_when_empty(trial, domain.largest_shortfall.shape, like)


def _list_node_kinds(trial: TrialCluster, domain: CandidateDomain) -> list[int]:
    """A row of each kind of node that is feasible for what is missing, the most common first."""
    snapshot = trial.snapshot
    demand = domain.largest_shortfall
    rows = domain.rows[
        trial.feasibility.rejection_reasons(demand.shape)[domain.rows] == FilterReason.FITS
    ]
    if not len(rows):
        return []
    facts = np.vstack(
        [snapshot.allocatable[:, rows], snapshot.layouts[rows], snapshot.taints[rows]]
    )
    kinds: dict[bytes, list[int]] = {}
    for row, fact in zip(rows.tolist(), np.ascontiguousarray(facts.T), strict=True):
        kinds.setdefault(fact.tobytes(), []).append(row)
    names = snapshot.names
    firsts = [
        (-len(same_kind), min(same_kind, key=lambda row: names[row]))
        for same_kind in kinds.values()
    ]
    firsts.sort(key=lambda one: (one[0], names[one[1]]))
    return [row for _, row in firsts[:_MAX_NODE_KINDS]]


def _find_fewest(
    trial: TrialCluster, gang: Gang, domain: CandidateDomain, like: Node, max_count: int
) -> int | None:
    """How many such nodes are needed, tried from below."""
    empty = _capacity_when_empty(trial, domain.largest_shortfall.shape, like)
    if not empty:
        return None
    failed = max(0, *(-(-demand.missing // empty) - 1 for demand in domain.demands))
    count, found, step = failed + 1, 0, 1
    while count <= max_count and not trial.is_exhausted:
        with trial.with_nodes([clone_node(like, number) for number in range(count)]):
            fits = trial.fits(gang)
        failed, found = (failed, count) if fits else (count, found)
        if found - failed == 1 or (not found and failed > gang.needed):
            break
        count, step = (failed + found) // 2 if found else failed + step, 2 * step
    return found or None


def _capacity_when_empty(trial: TrialCluster, shape: Shape, like: Node) -> int:
    node = clone_node(like, 0)
    with trial.with_nodes([node]):
        row = np.array([trial.snapshot.row(node.name)], np.intp)
        return int(count_fitting(trial.snapshot, shape, row)[0])


def clone_node(like: Node, number: int) -> Node:
    """A new node with the properties of an existing one."""
    name = f"{like.name}-another-{number}"
    labels = {**like.labels, _HOSTNAME: name} if _HOSTNAME in like.labels else like.labels
    return replace(like, name=name, labels=labels)
