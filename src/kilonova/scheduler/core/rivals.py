"""Pods of one shape that keep away from each other and have no other rules: so common that many of
them are placed at once, each in a domain of its own."""

from collections.abc import Sequence

import numpy as np

from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import domains_of
from kilonova.scheduler.core.neighbours import namespace_of
from kilonova.scheduler.core.rooms import Counts, Keys
from kilonova.scheduler.core.snapshot import Snapshot


def kept_apart(members: Sequence[Member]) -> str | None:
    """The level of which each of some pods of one shape needs a domain of its own; empty if they do
    not mind each other, None if there is more to it."""
    peers = members[0].shape.peers
    if peers is None:
        return ""
    if peers.near or peers.liked or peers.spreads:
        return None
    levels: set[str] = set()
    for term in peers.apart:
        meant = sum(term.kind.includes(namespace_of(each), each.labels) for each in members)
        if meant == len(members):
            levels.add(term.level)
        elif meant:
            return None
    return None if len(levels) > 1 else next(iter(levels), "")


def one_per_domain(snapshot: Snapshot, level: str, rows: Rows, room: Counts, keys: Keys) -> Counts:
    """Room for one pod on the best row of each domain; rows in no domain keep theirs."""
    domains = domains_of(snapshot, level)[rows]
    best_first = np.argsort(-np.where(room > 0, keys, -1), kind="stable")
    _, first = np.unique(domains[best_first], return_index=True)
    one = np.zeros(len(rows), np.int64)
    one[best_first[first]] = 1
    return np.where(domains < 0, room, np.minimum(room, one))
