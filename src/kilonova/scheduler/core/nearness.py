"""Where the pods that stand already let one more pod stand, and where it would like to.

The rules are those of Kubernetes' scheduler for pod affinity, anti-affinity and topology spread
constraints. Each costs a few operations on vectors over all nodes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.filters import Reason, Reasons, tolerated
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import Codes, Flags, Rows
from kilonova.scheduler.core.neighbours import Counts
from kilonova.scheduler.core.peers import EVERYWHERE, Kind, Peers, Spread, Term, in_all
from kilonova.scheduler.core.snapshot import Snapshot

Scores = NDArray[np.float64]

_HOSTNAME = "kubernetes.io/hostname"
_BEST = 100.0


def objections(snapshot: Snapshot, member: Member) -> Reasons | None:
    """For each row the first reason that others give against a pod; None if there is no rule."""
    peers = member.shape.peers
    if peers is None and not snapshot.neighbours.repels:
        return None
    against = [*_unmet(snapshot, member.shape, peers), *_kept_apart(snapshot, member)]
    if peers is None and not against:
        return None
    found = np.zeros(snapshot.size, np.int8)
    for reason, where in reversed(against):
        found[where] = reason
    return found


def clashes(snapshot: Snapshot, member: Member, row: int) -> bool:
    """Whether pods on or around a row and a pod keep each other away."""
    return any(where[row] for _, where in _kept_apart(snapshot, member))


def attraction(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How much of what a shape would like to be near, and how little of what it would rather be
    away from, is around each of some rows: 100 for the best of them, 0 for the worst."""
    liked = shape.peers.liked if shape.peers is not None else ()
    total = np.zeros(len(rows))
    for weight, term in liked:
        codes = domains_of(snapshot, term.level)
        total += weight * _by_domain(codes, _counts(snapshot, term.kind))[codes[rows] + 1]
    least = total.min(initial=np.inf)
    span = total.max(initial=-np.inf) - least
    return _BEST * (total - least) / span if span > 0 else np.zeros(len(rows))


def evenness(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How even a shape's pods would be among the domains that it would like to spread over, for
    each of some rows, up to 100; 0 for rows that are not in all levels."""
    spreads = tuple(s for s in shape.peers.spreads if not s.required) if shape.peers else ()
    if not spreads or not len(rows):
        return np.zeros(len(rows))
    labelled = _labelled(snapshot, spreads)
    judged = labelled[rows]
    total = np.zeros(len(rows))
    for spread in spreads:
        codes, counts = domains_of(snapshot, spread.level), _counts(snapshot, spread.kind)
        here = codes[rows]
        if spread.level == _HOSTNAME:
            matched, domains = counts[rows], np.count_nonzero(judged)
        else:
            counted = labelled & _included(snapshot, shape, spread)
            matched = _by_domain(codes, np.where(counted, counts, 0))[here + 1]
            domains = np.count_nonzero(np.bincount(here[judged] + 1))
        total += matched * np.log(domains + 2) + (spread.most - 1)
    total = np.rint(total)
    if not judged.any():
        return np.zeros(len(rows))
    most, least = total[judged].max(), total[judged].min()
    scores = _BEST * (most + least - total) / most if most else np.full(len(rows), _BEST)
    return np.where(judged, scores, 0.0)


def _unmet(snapshot: Snapshot, shape: Shape, peers: Peers | None) -> Iterator[tuple[Reason, Flags]]:
    """Where a pod would not be spread, or not be near others, as it must."""
    if peers is None:
        return
    spreads = tuple(spread for spread in peers.spreads if spread.required)
    if spreads:
        yield Reason.SPREAD, _uneven(snapshot, shape, spreads)
    if peers.near:
        yield Reason.POD_AFFINITY, ~_near(snapshot, peers)


def _kept_apart(snapshot: Snapshot, member: Member) -> Iterator[tuple[Reason, Flags]]:
    """Where a pod keeps away from others, or they from it."""
    neighbours, peers = snapshot.neighbours, member.shape.peers
    for term in peers.apart if peers is not None else ():
        met = _meets(snapshot, term.level, _counts(snapshot, term.kind))
        yield _in_use(term) or Reason.POD_ANTI_AFFINITY, met
    if neighbours.repels:
        for term in sorted(neighbours.repelling(member), key=lambda term: term.level):
            met = _meets(snapshot, term.level, neighbours.carriers(term, snapshot.size))
            yield _in_use(term) or Reason.REPELLED, met


def _in_use(term: Term) -> Reason | None:
    """A rule about the whole cluster is that of a volume which only one pod may use."""
    return Reason.VOLUME_IN_USE if term.level == EVERYWHERE else None


def _meets(snapshot: Snapshot, level: str, counts: Counts) -> Flags:
    """Rows in domains where any of the counted pods are."""
    codes = domains_of(snapshot, level)
    return _by_domain(codes, counts)[codes + 1] > 0


def _near(snapshot: Snapshot, peers: Peers) -> Flags:
    """Rows in domains with pods that meet all terms. Where there is none in the cluster, a pod
    that meets its own terms may stand in any domain."""
    counts = _counts(snapshot, in_all(term.kind for term in peers.near))
    labelled = np.ones(snapshot.size, np.bool_)
    met = np.ones(snapshot.size, np.bool_)
    first = peers.first_of_kind
    for level in dict.fromkeys(term.level for term in peers.near):
        codes = domains_of(snapshot, level)
        by_domain = _by_domain(codes, counts)
        labelled &= codes >= 0
        met &= by_domain[codes + 1] > 0
        first = first and not by_domain.any()
    return labelled if first else labelled & met


def _uneven(snapshot: Snapshot, shape: Shape, spreads: tuple[Spread, ...]) -> Flags:
    """Rows in domains that would have too many more pods than the one with the least."""
    labelled = _labelled(snapshot, spreads)
    against = np.zeros(snapshot.size, np.bool_)
    for spread in spreads:
        codes = domains_of(snapshot, spread.level)
        counted = labelled & _included(snapshot, shape, spread)
        matched = _by_domain(codes, np.where(counted, _counts(snapshot, spread.kind), 0))
        there = np.bincount(codes[counted] + 1, minlength=len(matched)) > 0
        few = np.count_nonzero(there) < max(spread.least_domains, 1)
        least = 0 if few else matched[there].min()
        against |= codes < 0
        against |= matched[codes + 1] + spread.counts_itself - least > spread.most
    return against


def _labelled(snapshot: Snapshot, spreads: tuple[Spread, ...]) -> Flags:
    labelled = np.ones(snapshot.size, np.bool_)
    for spread in spreads:
        labelled &= domains_of(snapshot, spread.level) >= 0
    return labelled


def _included(snapshot: Snapshot, shape: Shape, spread: Spread) -> Flags:
    """Rows whose pods and domains count for a spread."""
    rows = np.arange(snapshot.size)
    included = np.ones(snapshot.size, np.bool_)
    if spread.by_affinity:
        if shape.selector:
            included &= snapshot.labels.equal(shape.selector, rows)
        if shape.peers is not None and shape.peers.own_affinity:
            included &= snapshot.labels.any_holds(shape.one_of[0], rows)
    if spread.by_taints:
        included &= tolerated(snapshot, shape, rows)
    return included


def _counts(snapshot: Snapshot, kind: Kind) -> Counts:
    def stands() -> Iterator[tuple[Member, int]]:
        return ((booking.member, booking.row) for booking in snapshot.bookings.values())

    return snapshot.neighbours.counts(kind, stands, snapshot.size)


def domains_of(snapshot: Snapshot, level: str) -> Codes:
    """The domain of a level in which each row is, -1 if in none."""
    if level == EVERYWHERE:
        return np.where(snapshot.alive[: snapshot.size], 0, -1).astype(np.int32)
    return snapshot.labels.column(level).codes[: snapshot.size]


def _by_domain(codes: Codes, counts: Counts) -> Counts:
    """Sums over domains, that of domain 0 at 1; what is in none counts as nothing."""
    held = np.flatnonzero(counts)
    sums = np.bincount(
        codes[held] + 1, weights=counts[held], minlength=int(codes.max(initial=-1)) + 2
    ).astype(np.int64)
    sums[0] = 0
    return sums
