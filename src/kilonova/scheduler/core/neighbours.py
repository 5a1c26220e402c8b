"""How many pods of each kind stand on each node, kept as pods come and go.

A kind is counted from when somebody first asks for it. Rules of pods that stand already, which
keep others away, are counted where the pods are that carry them. Where no pod has rules about
others, nothing is counted at all.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.peers import Kind, Term

Counts = NDArray[np.int64]
Stands = Iterable[tuple[Member, int]]
"""Pods and the rows on which they are."""

_KEPT_KINDS = 512

T = TypeVar("T")


class Neighbours:
    """Counts by row. Whoever books and releases tells it, once it is awake."""

    def __init__(self) -> None:
        self.awake = False
        """Whether anything has to be counted."""
        self._kinds: OrderedDict[Kind, Counts] = OrderedDict()
        self._carried: dict[Term, Counts] = {}
        self._kinds_by_label: _ByLabel[Kind] = _ByLabel()
        self._carried_by_label: _ByLabel[Term] = _ByLabel()

    @property
    def repels(self) -> bool:
        """Whether any pod keeps others away."""
        return bool(self._carried)

    def repelling(self, member: Member) -> frozenset[Term]:
        """Rules of pods that stand which keep a pod away."""
        namespace = namespace_of(member)
        return frozenset(
            term
            for term in self._carried_by_label.among(member.labels)
            if term.kind.includes(namespace, member.labels, leaving=member.leaving)
        )

    def carriers(self, term: Term, rows: int) -> Counts:
        """By row, how many pods carry a rule that keeps others away."""
        return _at_least(self._carried[term], rows)[:rows]

    def counts(self, kind: Kind, stands: Callable[[], Stands], rows: int) -> Counts:
        """By row, how many pods are of a kind. `stands` is asked if it was not counted so far."""
        found = self._kinds.get(kind)
        if found is None:
            self.awake = True
            found = _counted(kind, stands(), rows)
            self._kinds_by_label.add(kind, kind)
            if len(self._kinds) >= _KEPT_KINDS:
                oldest, _ = self._kinds.popitem(last=False)
                self._kinds_by_label.remove(oldest, oldest)
        else:
            found = _at_least(found, rows)
        self._kinds[kind] = found
        self._kinds.move_to_end(kind)
        return found[:rows]

    def count(self, stands: Stands, sign: int) -> None:
        """Pods came, or went."""
        for member, row in stands:
            namespace = namespace_of(member)
            for kind in self._kinds_by_label.among(member.labels):
                if kind.includes(namespace, member.labels, leaving=member.leaving):
                    counts = self._kinds[kind] = _at_least(self._kinds[kind], row + 1)
                    counts[row] += sign
            if member.shape.peers is not None:
                for term in member.shape.peers.apart:
                    self._carry(term, row, sign)

    def copy(self) -> "Neighbours":
        other = Neighbours()
        other.awake = self.awake
        for kind, counts in self._kinds.items():
            other._kinds[kind] = counts.copy()
            other._kinds_by_label.add(kind, kind)
        for term, counts in self._carried.items():
            other._carried[term] = counts.copy()
            other._carried_by_label.add(term, term.kind)
        return other

    def _carry(self, term: Term, row: int, sign: int) -> None:
        counts = self._carried.get(term)
        if counts is None:
            counts = np.zeros(row + 1, np.int64)
            self._carried_by_label.add(term, term.kind)
        counts = self._carried[term] = _at_least(counts, row + 1)
        counts[row] += sign
        # A trial is taken back in an order of its own: a row may be below nothing for a moment.
        if not counts[row] and not counts.any():
            del self._carried[term]
            self._carried_by_label.remove(term, term.kind)


def namespace_of(member: Member) -> str:
    return member.pod.partition("/")[0]


class _ByLabel(Generic[T]):
    """Things about kinds of pods, found by a label that pods of the kind must have."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._others: dict[T, None] = {}

    def add(self, thing: T, kind: Kind) -> None:
        labels = _needed_labels(kind)
        if labels is None:
            self._others[thing] = None
        else:
            for label in labels:
                self._by_label.setdefault(label, {})[thing] = None

    def remove(self, thing: T, kind: Kind) -> None:
        labels = _needed_labels(kind)
        if labels is None:
            del self._others[thing]
            return
        for label in labels:
            things = self._by_label[label]
            del things[thing]
            if not things:
                del self._by_label[label]

    def among(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Those that may be about a pod with such labels."""
        yield from self._others
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())


def _needed_labels(kind: Kind) -> frozenset[tuple[str, str]] | None:
    """Labels of which every pod of a kind has one; None if nothing is known of it."""
    if kind.labels is None:
        return frozenset()
    for requirement in kind.labels:
        if requirement.operator == "In":
            return frozenset((requirement.key, value) for value in requirement.values)
    return None


def _counted(kind: Kind, stands: Stands, rows: int) -> Counts:
    found = [
        row
        for member, row in _likely(kind, stands)
        if kind.includes(namespace_of(member), member.labels, leaving=member.leaving)
    ]
    return np.bincount(np.array(found, np.intp), minlength=rows)


def _likely(kind: Kind, stands: Stands) -> Stands:
    """Among very many pods, those with a label that the kind needs."""
    for requirement in kind.labels or ():
        if requirement.operator == "In":
            key, values = requirement.key, requirement.values
            return [each for each in stands if each[0].labels.get(key) in values]
    return stands


def _at_least(counts: Counts, rows: int) -> Counts:
    if len(counts) >= rows:
        return counts
    longer = np.zeros(2 * rows, np.int64)
    longer[: len(counts)] = counts
    return longer
