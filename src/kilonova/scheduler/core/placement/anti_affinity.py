"""Pods of one shape with anti-affinity to each other and no other rules: so common that many of
them are placed at once, each in a domain of its own."""

from collections.abc import Sequence

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Counts, Keys
from kilonova.scheduler.core.filters.inter_pod_rules import row_domains
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_counts import namespace_of
from kilonova.scheduler.core.model.snapshot import Snapshot


def find_exclusive_level(members: Sequence[Member]) -> str | None:
    """The level at which each of some pods of one shape needs a domain of its own; empty if they
    have no anti-affinity to each other, None if other rules apply."""
    peers = members[0].shape.pod_rules
    if peers is None:
        return ""
    if peers.affinity or peers.preferred or peers.topology_spread:
        return None
    levels: set[str] = set()
    for term in peers.anti_affinity:
        meant = sum(term.selector.matches(namespace_of(each), each.labels) for each in members)
        if meant == len(members):
            levels.add(term.level)
        elif meant:
            return None
    return None if len(levels) > 1 else next(iter(levels), "")


def limit_to_one_per_domain(
    snapshot: Snapshot, level: str, rows: Rows, free_capacity: Counts, keys: Keys
) -> Counts:
    """Free capacity limited to one pod on the best row of each domain; rows without a domain keep
    theirs."""
    domains = row_domains(snapshot, level)[rows]
    best_first = np.argsort(-np.where(free_capacity > 0, keys, -1), kind="stable")
    _, first = np.unique(domains[best_first], return_index=True)
    one = np.zeros(len(rows), np.int64)
    one[best_first[first]] = 1
    return np.where(domains < 0, free_capacity, np.minimum(free_capacity, one))
