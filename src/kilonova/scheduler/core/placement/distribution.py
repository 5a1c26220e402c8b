"""How many pods each of some nodes takes: pure arithmetic on vectors of free capacity."""

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Counts, Keys
from kilonova.scheduler.core.model.label_columns import Codes


def fill_fewest_nodes(free_capacity: Counts, ranks: Counts, pod_count: int) -> Counts:
    """As few nodes as can hold the pods; the remainder goes to the tightest node that holds it."""
    return _fill_last_tightest(free_capacity, np.lexsort((ranks, -free_capacity)), ranks, pod_count)


def fill_best_nodes(free_capacity: Counts, keys: Keys, pod_count: int) -> Counts:
    """Node after node in order of ranking, each filled before the next."""
    return _fill_in_order(free_capacity, np.argsort(-keys, kind="stable"), pod_count)


def fill_fewest_domains(
    free_capacity: Counts, domains: Codes, ranks: Counts, pod_count: int
) -> Counts:
    """Domain after domain, those with most free capacity first; in each, as few nodes as possible.

    Nodes without a domain come last.
    """
    count = int(domains.max(initial=-1)) + 1
    by_domain = np.bincount(domains + 1, weights=free_capacity, minlength=count + 1)
    by_domain[0] = -1
    first = _lowest_ranks(domains, ranks)[domains + 1]
    order = np.lexsort((ranks, -free_capacity, first, -by_domain[domains + 1]))
    return _fill_in_order(free_capacity, order, pod_count)


def fill_whole_segments(
    free_capacity: Counts, domains: Codes, ranks: Counts, size: int, pod_count: int
) -> Counts:
    """`size` pods at a time within one domain, the domains with capacity for most segments first;
    the remainder goes where complete segments leave capacity for it.

    Places fewer pods if the domains do not have enough capacity.
    """
    taken = np.zeros(len(free_capacity), np.int64)
    placed = domains >= 0
    capacity = np.bincount(domains[placed], weights=free_capacity[placed]).astype(np.int64)
    first = _lowest_ranks(domains, ranks)[1:]
    order = np.lexsort((first, -(capacity // size))).tolist()
    shares = dict.fromkeys(order, 0)
    left, rest = pod_count - pod_count % size, pod_count % size
    for domain in order:
        shares[domain] = min(left, int(capacity[domain]) // size * size)
        left -= shares[domain]
    spare = {domain: int(capacity[domain]) - share for domain, share in shares.items()}
    feasible = [domain for domain in order if spare[domain] >= rest]
    if rest and not left and feasible:
        used = [domain for domain in feasible if shares[domain]]
        shares[min(used or feasible, key=lambda domain: (spare[domain], first[domain]))] += rest
    for domain, share in shares.items():
        if share:
            here = np.flatnonzero(domains == domain)
            taken[here] = fill_fewest_nodes(free_capacity[here], ranks[here], share)
    return taken


def order_by_segments(domains: Codes, taken: Counts, size: int) -> Counts:
    """An order of rows in which no segment is split: domain after domain, the one with an
    incomplete segment last."""
    torn = np.bincount(domains, weights=taken).astype(np.int64) % size != 0
    first = np.full(len(torn), len(domains))
    np.minimum.at(first, domains, np.arange(len(domains)))
    return np.lexsort((np.arange(len(domains)), first[domains], torn[domains]))


def _lowest_ranks(domains: Codes, ranks: Counts) -> Counts:
    """The lowest node rank of each domain, that of no domain first: the tie-breaker between equal
    domains, independent of the order of their codes."""
    first = np.full(int(domains.max(initial=-1)) + 2, np.iinfo(np.int64).max)
    np.minimum.at(first, domains + 1, ranks)
    return first


def _fill_in_order(free_capacity: Counts, row_order: Counts, pod_count: int) -> Counts:
    taken = np.zeros(len(free_capacity), np.int64)
    ordered = free_capacity[row_order]
    before = np.cumsum(ordered) - ordered
    taken[row_order] = np.clip(pod_count - before, 0, ordered)
    return taken


def _fill_last_tightest(
    free_capacity: Counts, row_order: Counts, ranks: Counts, pod_count: int
) -> Counts:
    taken = _fill_in_order(free_capacity, row_order, pod_count)
    partial = np.flatnonzero((taken > 0) & (taken < free_capacity))
    if len(partial):
        last = int(partial[0])
        rest = int(taken[last])
        feasible = np.flatnonzero((free_capacity >= rest) & (taken == 0))
        if len(feasible):
            tightest = int(feasible[np.lexsort((ranks[feasible], free_capacity[feasible]))[0]])
            if free_capacity[tightest] < free_capacity[last]:
                taken[last] = 0
                taken[tightest] = rest
    return taken
