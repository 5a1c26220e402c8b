"""How many pods of each selector each node has, updated as pods are added and removed.

Counting of a selector begins when it is first used. Anti-affinity terms of placed pods are counted
on the rows of the pods that have them. Nothing is counted while no pod has rules about other pods.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodSelector

Counts = NDArray[np.int64]
PlacedPods = Iterable[tuple[Member, int]]
"""Pods and the rows on which they are placed."""

_MAX_SELECTORS = 512

T = TypeVar("T")


class PodCounts:
    """Pods per selector and row. The snapshot calls `update` once `is_active` is set."""

    def __init__(self) -> None:
        self.is_active = False
        """Whether anything has to be counted."""
        self._selectors: OrderedDict[PodSelector, Counts] = OrderedDict()
        self._anti_affinity: dict[AffinityTerm, Counts] = {}
        self._selectors_by_label: _LabelIndex[PodSelector] = _LabelIndex()
        self._anti_affinity_by_label: _LabelIndex[AffinityTerm] = _LabelIndex()

    @property
    def has_anti_affinity(self) -> bool:
        """Whether any placed pod has a required anti-affinity term."""
        return bool(self._anti_affinity)

    def anti_affinity_against(self, member: Member) -> frozenset[AffinityTerm]:
        """Anti-affinity terms of placed pods that match a pod."""
        namespace = namespace_of(member)
        return frozenset(
            term
            for term in self._anti_affinity_by_label.candidates_for(member.labels)
            if term.selector.matches(namespace, member.labels, terminating=member.terminating)
        )

    def anti_affinity_counts(self, term: AffinityTerm, rows: int) -> Counts:
        """By row, the number of pods that have this anti-affinity term."""
        return _grow_to(self._anti_affinity[term], rows)[:rows]

    def selector_counts(
        self, selector: PodSelector, list_placed: Callable[[], PlacedPods], rows: int
    ) -> Counts:
        """By row, the number of pods that match a selector. `list_placed` is called if the selector
        was not counted so far."""
        found = self._selectors.get(selector)
        if found is None:
            self.is_active = True
            found = _count_matching(selector, list_placed(), rows)
            self._selectors_by_label.add(selector, selector)
            if len(self._selectors) >= _MAX_SELECTORS:
                oldest, _ = self._selectors.popitem(last=False)
                self._selectors_by_label.remove(oldest, oldest)
        else:
            found = _grow_to(found, rows)
        self._selectors[selector] = found
        self._selectors.move_to_end(selector)
        return found[:rows]

    def update(self, placed: PlacedPods, sign: int) -> None:
        """Counts pods that were added (`sign` 1) or removed (-1)."""
        for member, row in placed:
            namespace = namespace_of(member)
            for selector in self._selectors_by_label.candidates_for(member.labels):
                if selector.matches(namespace, member.labels, terminating=member.terminating):
                    counts = self._selectors[selector] = _grow_to(
                        self._selectors[selector], row + 1
                    )
                    counts[row] += sign
            if member.shape.pod_rules is not None:
                for term in member.shape.pod_rules.anti_affinity:
                    self._count_anti_affinity(term, row, sign)

    def copy(self) -> "PodCounts":
        other = PodCounts()
        other.is_active = self.is_active
        for selector, counts in self._selectors.items():
            other._selectors[selector] = counts.copy()
            other._selectors_by_label.add(selector, selector)
        for term, counts in self._anti_affinity.items():
            other._anti_affinity[term] = counts.copy()
            other._anti_affinity_by_label.add(term, term.selector)
        return other

    def _count_anti_affinity(self, term: AffinityTerm, row: int, sign: int) -> None:
        counts = self._anti_affinity.get(term)
        if counts is None:
            counts = np.zeros(row + 1, np.int64)
            self._anti_affinity_by_label.add(term, term.selector)
        counts = self._anti_affinity[term] = _grow_to(counts, row + 1)
        counts[row] += sign
        # A rollback does not follow the order of the changes: a count may be negative in between.
        if not counts[row] and not counts.any():
            del self._anti_affinity[term]
            self._anti_affinity_by_label.remove(term, term.selector)


def namespace_of(member: Member) -> str:
    return member.pod.partition("/")[0]


class _LabelIndex(Generic[T]):
    """An index of selectors, or of terms, by a label that every matching pod must have."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._unindexed: dict[T, None] = {}

    def add(self, thing: T, selector: PodSelector) -> None:
        labels = _required_labels(selector)
        if labels is None:
            self._unindexed[thing] = None
        else:
            for label in labels:
                self._by_label.setdefault(label, {})[thing] = None

    def remove(self, thing: T, selector: PodSelector) -> None:
        labels = _required_labels(selector)
        if labels is None:
            del self._unindexed[thing]
            return
        for label in labels:
            things = self._by_label[label]
            del things[thing]
            if not things:
                del self._by_label[label]

    def candidates_for(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Entries whose selector may match a pod with these labels."""
        yield from self._unindexed
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())


def _required_labels(selector: PodSelector) -> frozenset[tuple[str, str]] | None:
    """Labels of which every matching pod has at least one; None if none can be derived."""
    if selector.labels is None:
        return frozenset()
    for requirement in selector.labels:
        if requirement.operator == "In":
            return frozenset((requirement.key, value) for value in requirement.values)
    return None


def _count_matching(selector: PodSelector, placed: PlacedPods, rows: int) -> Counts:
    found = [
        row
        for member, row in _prefilter(selector, placed)
        if selector.matches(namespace_of(member), member.labels, terminating=member.terminating)
    ]
    return np.bincount(np.array(found, np.intp), minlength=rows)


def _prefilter(selector: PodSelector, placed: PlacedPods) -> PlacedPods:
    """The pods that have a label which the selector requires: cheap, before the full match."""
    for requirement in selector.labels or ():
        if requirement.operator == "In":
            key, values = requirement.key, requirement.values
            return [each for each in placed if each[0].labels.get(key) in values]
    return placed


def _grow_to(counts: Counts, rows: int) -> Counts:
    if len(counts) >= rows:
        return counts
    longer = np.zeros(2 * rows, np.int64)
    longer[: len(counts)] = counts
    return longer
