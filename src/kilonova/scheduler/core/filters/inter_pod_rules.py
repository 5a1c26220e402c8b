"""Pod affinity, anti-affinity and topology spread: which rows they reject, and preference scores.

The semantics are those of kube-scheduler's InterPodAffinity and PodTopologySpread plugins. Each
rule costs a few vector operations over all nodes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.filters.node_filters import FilterReason, Reasons, tolerated_rows
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Codes, Flags, Rows
from kilonova.scheduler.core.model.pod_affinity import (
    WHOLE_CLUSTER,
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
    intersect_selectors,
)
from kilonova.scheduler.core.model.pod_counts import Counts
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot

Scores = NDArray[np.float64]

_HOSTNAME = "kubernetes.io/hostname"
_BEST = 100.0


def inter_pod_rejections(snapshot: Snapshot, member: Member) -> Reasons | None:
    """For each row the first rule that rejects a pod; None if no rule applies."""
    peers = member.shape.pod_rules
    if peers is None and not snapshot.pod_counts.has_anti_affinity:
        return None
    rejections = [
        *_violated_rules(snapshot, member.shape, peers),
        *_anti_affinity_violations(snapshot, member),
    ]
    if peers is None and not rejections:
        return None
    found = np.zeros(snapshot.size, np.int8)
    for reason, where in reversed(rejections):
        found[where] = reason
    return found


def has_anti_affinity_conflict(snapshot: Snapshot, member: Member, row: int) -> bool:
    """Whether anti-affinity, of the pod or of placed pods, rejects a row."""
    return any(where[row] for _, where in _anti_affinity_violations(snapshot, member))


def affinity_preference_scores(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Preferred pod affinity and anti-affinity of a shape, normalised over the rows: 100 for the
    best of them, 0 for the worst."""
    liked = shape.pod_rules.preferred if shape.pod_rules is not None else ()
    total = np.zeros(len(rows))
    for weight, term in liked:
        codes = row_domains(snapshot, term.level)
        total += (
            weight
            * _sum_by_domain(codes, _selector_counts(snapshot, term.selector))[codes[rows] + 1]
        )
    least = total.min(initial=np.inf)
    span = total.max(initial=-np.inf) - least
    return _BEST * (total - least) / span if span > 0 else np.zeros(len(rows))


def spread_preference_scores(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Preferred topology spread of a shape for each of some rows, up to 100; 0 for rows that lack
    one of the topology labels."""
    spreads = (
        tuple(s for s in shape.pod_rules.topology_spread if not s.required)
        if shape.pod_rules
        else ()
    )
    if not spreads or not len(rows):
        return np.zeros(len(rows))
    labelled = _rows_with_levels(snapshot, spreads)
    scored = labelled[rows]
    total = np.zeros(len(rows))
    for spread in spreads:
        codes, counts = (
            row_domains(snapshot, spread.level),
            _selector_counts(snapshot, spread.selector),
        )
        here = codes[rows]
        if spread.level == _HOSTNAME:
            matched, domains = counts[rows], np.count_nonzero(scored)
        else:
            counted = labelled & _rows_counted(snapshot, shape, spread)
            matched = _sum_by_domain(codes, np.where(counted, counts, 0))[here + 1]
            domains = np.count_nonzero(np.bincount(here[scored] + 1))
        total += matched * np.log(domains + 2) + (spread.max_skew - 1)
    total = np.rint(total)
    if not scored.any():
        return np.zeros(len(rows))
    most, least = total[scored].max(), total[scored].min()
    scores = _BEST * (most + least - total) / most if most else np.full(len(rows), _BEST)
    return np.where(scored, scores, 0.0)


def _violated_rules(
    snapshot: Snapshot, shape: Shape, rules: PodAffinityRules | None
) -> Iterator[tuple[FilterReason, Flags]]:
    """Rows that violate a required spread constraint or the required affinity."""
    if rules is None:
        return
    spreads = tuple(spread for spread in rules.topology_spread if spread.required)
    if spreads:
        yield FilterReason.SPREAD, _rows_violating_spread(snapshot, shape, spreads)
    if rules.affinity:
        yield FilterReason.POD_AFFINITY, ~_rows_meeting_affinity(snapshot, rules)


def _anti_affinity_violations(
    snapshot: Snapshot, member: Member
) -> Iterator[tuple[FilterReason, Flags]]:
    """Rows that violate required anti-affinity, of the pod or of placed pods."""
    pod_counts, peers = snapshot.pod_counts, member.shape.pod_rules
    for term in peers.anti_affinity if peers is not None else ():
        met = _rows_near_pods(snapshot, term.level, _selector_counts(snapshot, term.selector))
        yield _volume_reason(term) or FilterReason.POD_ANTI_AFFINITY, met
    if pod_counts.has_anti_affinity:
        for term in sorted(pod_counts.anti_affinity_against(member), key=lambda term: term.level):
            met = _rows_near_pods(
                snapshot, term.level, pod_counts.anti_affinity_counts(term, snapshot.size)
            )
            yield _volume_reason(term) or FilterReason.EXISTING_POD_ANTI_AFFINITY, met


def _volume_reason(term: AffinityTerm) -> FilterReason | None:
    """Anti-affinity over the whole cluster represents a volume that only one pod may use."""
    return FilterReason.VOLUME_IN_USE if term.level == WHOLE_CLUSTER else None


def _rows_near_pods(snapshot: Snapshot, level: str, counts: Counts) -> Flags:
    """Rows in domains that have any of the counted pods."""
    codes = row_domains(snapshot, level)
    return _sum_by_domain(codes, counts)[codes + 1] > 0


def _rows_meeting_affinity(snapshot: Snapshot, rules: PodAffinityRules) -> Flags:
    """Rows in domains with pods that match all terms. If no pod of the cluster matches, a pod that
    matches its own terms may be placed in any domain."""
    counts = _selector_counts(
        snapshot, intersect_selectors(term.selector for term in rules.affinity)
    )
    labelled = np.ones(snapshot.size, np.bool_)
    met = np.ones(snapshot.size, np.bool_)
    first = rules.matches_own_affinity
    for level in dict.fromkeys(term.level for term in rules.affinity):
        codes = row_domains(snapshot, level)
        by_domain = _sum_by_domain(codes, counts)
        labelled &= codes >= 0
        met &= by_domain[codes + 1] > 0
        first = first and not by_domain.any()
    return labelled if first else labelled & met


def _rows_violating_spread(
    snapshot: Snapshot, shape: Shape, spreads: tuple[TopologySpread, ...]
) -> Flags:
    """Rows in domains where the pod would exceed the maximum skew."""
    labelled = _rows_with_levels(snapshot, spreads)
    rejections = np.zeros(snapshot.size, np.bool_)
    for spread in spreads:
        codes = row_domains(snapshot, spread.level)
        counted = labelled & _rows_counted(snapshot, shape, spread)
        matched = _sum_by_domain(
            codes, np.where(counted, _selector_counts(snapshot, spread.selector), 0)
        )
        there = np.bincount(codes[counted] + 1, minlength=len(matched)) > 0
        few = np.count_nonzero(there) < max(spread.min_domains, 1)
        least = 0 if few else matched[there].min()
        rejections |= codes < 0
        rejections |= matched[codes + 1] + spread.matches_itself - least > spread.max_skew
    return rejections


def _rows_with_levels(snapshot: Snapshot, spreads: tuple[TopologySpread, ...]) -> Flags:
    labelled = np.ones(snapshot.size, np.bool_)
    for spread in spreads:
        labelled &= row_domains(snapshot, spread.level) >= 0
    return labelled


def _rows_counted(snapshot: Snapshot, shape: Shape, spread: TopologySpread) -> Flags:
    """Rows whose pods and domains a spread constraint counts."""
    rows = np.arange(snapshot.size)
    included = np.ones(snapshot.size, np.bool_)
    if spread.honors_node_affinity:
        if shape.node_selector:
            included &= snapshot.labels.matches_selector(shape.node_selector, rows)
        if shape.pod_rules is not None and shape.pod_rules.has_node_affinity:
            included &= snapshot.labels.matches_any(shape.required_node_terms[0], rows)
    if spread.honors_taints:
        included &= tolerated_rows(snapshot, shape, rows)
    return included


def _selector_counts(snapshot: Snapshot, selector: PodSelector) -> Counts:
    def list_placed() -> Iterator[tuple[Member, int]]:
        return ((placement.member, placement.row) for placement in snapshot.placements.values())

    return snapshot.pod_counts.selector_counts(selector, list_placed, snapshot.size)


def row_domains(snapshot: Snapshot, level: str) -> Codes:
    """The domain of each row at a level, -1 if it has none."""
    if level == WHOLE_CLUSTER:
        return np.where(snapshot.alive[: snapshot.size], 0, -1).astype(np.int32)
    return snapshot.labels.column(level).codes[: snapshot.size]


def _sum_by_domain(codes: Codes, counts: Counts) -> Counts:
    """Sums over domains, that of domain 0 at index 1; rows without a domain are not counted."""
    held = np.flatnonzero(counts)
    sums = np.bincount(
        codes[held] + 1, weights=counts[held], minlength=int(codes.max(initial=-1)) + 2
    ).astype(np.int64)
    sums[0] = 0
    return sums
