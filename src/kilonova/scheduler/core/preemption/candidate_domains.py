"""Domains in which capacity could be freed for a gang, by how much is missing in each."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, Scores
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import NODE_NAME, Codes, Flags, Rows
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import single_unconstrained_pod
from kilonova.scheduler.core.topology.domains import anchor_domains
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree

_MAX_DOMAINS = 16
"""Number of domains compared."""


def iter_likely_domains(
    snapshot: Snapshot, feasibility: FeasibilityCache, gang: Gang
) -> Iterator[Rows]:
    """The candidate domains that lack least."""
    return islice(iter_candidate_domains(snapshot, feasibility, gang), _MAX_DOMAINS)


def iter_candidate_domains(
    snapshot: Snapshot, feasibility: FeasibilityCache, gang: Gang
) -> Iterator[Rows]:
    """Rows within which capacity could be freed for a gang, those that lack least first: a node for
    a single pod, a domain of the level that the gang requires, or all nodes. Where pods of the gang
    are already placed, only their domain."""
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    level = NODE_NAME if single_unconstrained_pod(gang) is not None else _required_level(gang)
    if not level:
        one_domain = np.zeros(len(rows), np.int32)
        if len(rows) and np.isfinite(
            _missing_fractions(snapshot, feasibility, gang, rows, one_domain)[0]
        ):
            yield rows
        return
    domains = snapshot.labels.domains(level, rows)
    anchors = anchor_domains(snapshot, build_gang_tree(gang), level)
    inside = domains >= 0 if anchors is None else np.isin(domains, anchors[anchors >= 0])
    rows, domains = rows[inside], domains[inside]
    if not len(rows):
        return
    missing = _missing_fractions(snapshot, feasibility, gang, rows, domains)
    names = snapshot.labels.column(level).values
    feasible = np.flatnonzero(np.isfinite(missing)).tolist()
    for domain in sorted(feasible, key=lambda domain: (missing[domain], names[domain])):
        yield rows[domains == domain]


def _missing_fractions(
    snapshot: Snapshot, feasibility: FeasibilityCache, gang: Gang, rows: Rows, domains: Codes
) -> Scores:
    """By domain, the fraction of the gang's requests that is not free; infinite where it could
    never fit."""
    count = int(domains.max()) + 1
    missing = np.zeros(count)
    needs: dict[str, int] = {}
    for group in gang.groups:
        for member in group.members[: group.needed]:
            for name, amount in member.shape.requests:
                needs[name] = needs.get(name, 0) + amount
    allowed = _feasible_rows(feasibility, gang, rows)
    for name, need in needs.items():
        column = snapshot.column(name)
        total = np.bincount(
            domains, weights=snapshot.allocatable[column, rows] * allowed, minlength=count
        )
        free = np.bincount(domains, weights=snapshot.free[column, rows] * allowed, minlength=count)
        missing[total < need] = np.inf
        if need:
            missing = np.maximum(missing, (need - free) / need)
    return missing


def _feasible_rows(feasibility: FeasibilityCache, gang: Gang, rows: Rows) -> Flags:
    allowed = np.zeros(len(rows), np.bool_)
    for shape in {m.shape for group in gang.groups for m in group.members[: group.needed]}:
        allowed |= feasibility.rejection_reasons(shape)[rows] == FilterReason.FITS
    return allowed


def _required_level(gang: Gang) -> str:
    """The level of which the gang requires one domain."""
    only = gang.groups[0].pack.required if len(gang.groups) == 1 else ""
    return gang.pack.required or only
