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
    first = _first_ranks(domains, ranks)[domains + 1]
    order = np.lexsort((ranks, -room, first, -by_domain[domains + 1]))
    return _take(room, order, wanted)


def whole_segments(room: Counts, domains: Codes, ranks: Counts, size: int, wanted: int) -> Counts:
    """`size` at a time within one domain; the domains with room for the most segments first. What
    is left over goes where segments leave room for it.

    Takes less than wanted if the domains do not have so many.
    """
    taken = np.zeros(len(room), np.int64)
    placed = domains >= 0
    capacity = np.bincount(domains[placed], weights=room[placed]).astype(np.int64)
    first = _first_ranks(domains, ranks)[1:]
    order = np.lexsort((first, -(capacity // size))).tolist()
    shares = dict.fromkeys(order, 0)
    left, rest = wanted - wanted % size, wanted % size
    for domain in order:
        shares[domain] = min(left, int(capacity[domain]) // size * size)
        left -= shares[domain]
    spare = {domain: int(capacity[domain]) - share for domain, share in shares.items()}
    able = [domain for domain in order if spare[domain] >= rest]
    if rest and not left and able:
        used = [domain for domain in able if shares[domain]]
        shares[min(used or able, key=lambda domain: (spare[domain], first[domain]))] += rest
    for domain, share in shares.items():
        if share:
            here = np.flatnonzero(domains == domain)
            taken[here] = fewest_nodes(room[here], ranks[here], share)
    return taken


def by_segments(domains: Codes, taken: Counts, size: int) -> Counts:
    """The order in which rows are filled so that no segment is torn: domain after domain, that with
    an incomplete segment last."""
    torn = np.bincount(domains, weights=taken).astype(np.int64) % size != 0
    first = np.full(len(torn), len(domains))
    np.minimum.at(first, domains, np.arange(len(domains)))
    return np.lexsort((np.arange(len(domains)), first[domains], torn[domains]))


def _first_ranks(domains: Codes, ranks: Counts) -> Counts:
    """The first node of each domain in the order of names, that of none first: what decides between
    equal domains, whichever was known earlier."""
    first = np.full(int(domains.max(initial=-1)) + 2, np.iinfo(np.int64).max)
    np.minimum.at(first, domains + 1, ranks)
    return first


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
