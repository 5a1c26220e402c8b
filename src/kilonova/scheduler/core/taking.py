"""How many pods each of some nodes takes: pure arithmetic on vectors of rooms."""

import numpy as np

from kilonova.scheduler.core.labels import Codes
from kilonova.scheduler.core.rooms import Counts, Keys


def fewest_nodes(room: Counts, ranks: Counts, wanted: int) -> Counts:
    """As few nodes as can hold them; what is left over goes to the tightest node that holds it."""
    return _take_last_tightly(room, np.lexsort((ranks, -room)), ranks, wanted)


def best_nodes(room: Counts, keys: Keys, wanted: int) -> Counts:
    """Node after node in order of preference, each filled before the next."""
    return _take(room, np.argsort(-keys, kind="stable"), wanted)


def fewest_domains(room: Counts, domains: Codes, ranks: Counts, wanted: int) -> Counts:
    """Domain after domain, those with the most room first; in each, as few nodes as can be.

    Nodes in no domain come last.
    """
    count = int(domains.max(initial=-1)) + 1
    by_domain = np.bincount(domains + 1, weights=room, minlength=count + 1)
    by_domain[0] = -1
    order = np.lexsort((ranks, -room, domains, -by_domain[domains + 1]))
    return _take(room, order, wanted)


def whole_segments(room: Counts, domains: Codes, ranks: Counts, size: int, wanted: int) -> Counts:
    """`size` at a time within one domain; the domains with room for the most segments first.

    Takes less than wanted if the domains do not have so many.
    """
    taken = np.zeros(len(room), np.int64)
    placed = domains >= 0
    capacity = np.bincount(domains[placed], weights=room[placed]).astype(np.int64)
    for domain in np.lexsort((np.arange(len(capacity)), -(capacity // size))).tolist():
        left = wanted - int(taken.sum())
        if left <= 0:
            break
        here = np.flatnonzero(domains == domain)
        full = min(left // size, int(capacity[domain]) // size) * size
        rest = left - full
        if 0 < rest < size and capacity[domain] - full >= rest:
            full += rest
        taken[here] = fewest_nodes(room[here], ranks[here], full)
    return taken


def _take(room: Counts, order: Counts, wanted: int) -> Counts:
    taken = np.zeros(len(room), np.int64)
    ordered = room[order]
    before = np.cumsum(ordered) - ordered
    taken[order] = np.clip(wanted - before, 0, ordered)
    return taken


def _take_last_tightly(room: Counts, order: Counts, ranks: Counts, wanted: int) -> Counts:
    taken = _take(room, order, wanted)
    partial = np.flatnonzero((taken > 0) & (taken < room))
    if len(partial):
        last = int(partial[0])
        rest = int(taken[last])
        able = np.flatnonzero((room >= rest) & (taken == 0))
        if len(able):
            tightest = int(able[np.lexsort((ranks[able], room[able]))[0]])
            if room[tightest] < room[last]:
                taken[last] = 0
                taken[tightest] = rest
    return taken
