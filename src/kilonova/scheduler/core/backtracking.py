"""A complete search for the places of a gang, where the quick ways found none.

One pod after the other takes a node, and shares of certain devices there; where a pod finds none,
the one before it takes its next choice. Nodes that nothing tells apart are tried once, and what is
left after the same choices in another order is looked at once: so small gangs are decided about
exactly, and large clusters of equal nodes cost little. A search that takes too long is given up,
see `SearchBudget`.

`StateSearch` goes by what is left of nodes in a model of them (`NodeStates`). Where that does not
know all rules, as those about other pods or claims, `TrialSearch` books every choice in the
snapshot, which knows them, and costs a hundred times as much; it lets the node choose devices.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from heapq import merge
from random import Random
from typing import Generic, TypeVar

import numpy as np

from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.labels import ABSENT, Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.node_states import NodeStates, State, knows
from kilonova.scheduler.core.parts import Part
from kilonova.scheduler.core.pod_order import OrderedPod, PodOrder
from kilonova.scheduler.core.rivals import kept_apart
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.snapshot import Snapshot

MOST_PODS = 256
"""Of larger gangs no complete search is made: it would not end."""

_LOOKS_PER_STEP = 8
"""So many nodes are looked at for the cost of one choice."""

_ROWS_PER_STEP = 32
"""For so many rows one step is paid before a search, for each shape: they are divided by it."""

_TRIAL_STEPS, _TRIAL_ROWS = 16, 32
"""What a choice costs that is booked, and for how many rows one step more."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pod, its row, and how much was free of each device of which it takes a share."""

    member: Member
    row: int
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """A pod that takes a place."""

    place: Place
    decided: tuple[int, ...]
    """Sets of pods whose domain it decides."""


def search(
    snapshot: Snapshot, rooms: Rooms, root: Part, rows: Rows, gang: str, budget: SearchBudget
) -> list[Place] | None:
    """A place on some rows for each pod that a gang needs; None if there are none, or the budget
    is exceeded. Nothing is booked."""
    if budget.spent:
        return None
    leaves = [leaf for leaf in root.leaves() if leaf.wanted]
    shapes = {shape for leaf in leaves for shape, _ in leaf.wanted}
    if len(leaves) == len(shapes) == 1 and _is_simple(leaves[0]):
        return None  # the quick way is as good
    is_known = all(knows(snapshot, shape, rows) for shape in shapes)
    if sum(number for leaf in leaves for _, number in leaf.wanted) > MOST_PODS:
        budget.exceeded = True
        return None
    if not budget.spend(len(rows) * len(shapes) // _ROWS_PER_STEP):
        return None
    order = PodOrder(snapshot, rooms, root, rows)
    if is_known:
        return StateSearch(snapshot, order, budget).places()
    return TrialSearch(snapshot, rooms, order, rows, gang, budget).places()


def claims_cost(rows: int) -> int:
    """What it costs to book a pod with claims: they are looked for on all rows again."""
    return _TRIAL_STEPS + rows


def _is_simple(leaf: Part) -> bool:
    """Whether pods of one shape fill nodes, or domains of which each takes one of them."""
    group = leaf.group
    if group is None or group.segments is not None:
        return False
    members = group.members[: group.needed]
    return not members[0].shape.claims and kept_apart(members) is not None


StepT = TypeVar("StepT", bound=_Step)


class Backtracking(ABC, Generic[StepT]):
    """Depth first. Keeps a stack of its own: the one of calls is finite."""

    def __init__(self, order: PodOrder, budget: SearchBudget, cost: int = 1) -> None:
        self._order = order
        self._budget = budget
        self._cost = cost
        """Of one choice."""
        self._domains = order.domains.copy()
        """Of each set, as far as it is decided."""
        self._unfinished = order.unfinished_sets()
        self._seen: set[Hashable] = set()
        self._is_given_up = False

    def places(self) -> list[Place] | None:
        pods = self._order.pods
        if self._order.is_contradictory or not all(len(rows) for rows in self._order.open):
            return None
        steps: list[StepT] = []
        choices = [self._choices(pods[0])]
        while len(steps) < len(pods):
            step = next(choices[-1], None)
            if self._is_given_up or (step is not None and not self._pay(self._cost)):
                for each in reversed(steps):
                    self._take_back(each)
                return None
            if step is None:
                choices.pop()
                if not steps:
                    return None
                self._take_back(steps.pop())
                continue
            self._take(step)
            steps.append(step)
            state = self._state(len(steps))
            if state in self._seen:
                self._take_back(steps.pop())
                continue
            self._seen.add(state)
            if len(steps) < len(pods):
                choices.append(self._choices(pods[len(steps)]))
        for each in reversed(steps):
            self._take_back(each)
        return [step.place for step in steps]

    def _pay(self, steps: int) -> bool:
        """Pays for steps; the search is given up if they are not left."""
        self._is_given_up = not self._budget.spend(steps)
        return not self._is_given_up

    def _state(self, index: int) -> Hashable:
        """Equal where the pods from this one on have the same choices."""
        domains = tuple(self._domains[each] for each in self._unfinished[index])
        return index, self._used(), domains

    def _deciding(self, pod: OrderedPod, domains: tuple[int, ...]) -> tuple[int, ...] | None:
        """Sets whose domain a pod would decide in some domains; None if it may not stand there."""
        decided: list[int] = []
        for each in pod.sets:
            if domains[each] == ABSENT or self._domains[each] not in (ABSENT, domains[each]):
                return None
            if self._domains[each] == ABSENT:
                decided.append(each)
        return tuple(decided)

    @abstractmethod
    def _choices(self, pod: OrderedPod) -> Iterator[StepT]:
        """Where a pod may stand now, the best first. They are looked for as they are asked for, as
        most often the first is taken. None follow when the search is given up."""

    @abstractmethod
    def _take(self, step: StepT) -> None: ...

    @abstractmethod
    def _take_back(self, step: StepT) -> None: ...

    @abstractmethod
    def _used(self) -> Hashable:
        """What was taken by all steps, in whichever order."""


@dataclass(frozen=True, slots=True)
class _StateStep(_Step):
    number: int
    """Of the class of nodes."""
    before: State | None
    """What was left of the row; None if it was not touched."""
    after: State


_Untouched = tuple[State, int, tuple[int, ...]]
"""How a pod may use a node of a class: what is left of it, its class, and shares of devices."""


def _tightness(step: _StateStep) -> tuple[State, int]:
    return step.after, step.place.row


class StateSearch(Backtracking[_StateStep]):
    """By what is left of nodes."""

    def __init__(self, snapshot: Snapshot, order: PodOrder, budget: SearchBudget) -> None:
        super().__init__(order, budget)
        self._nodes = NodeStates(snapshot, order)
        self._able = [set(some) for some in self._nodes.able]
        self._inside: dict[tuple[int, int, int], list[_Untouched]] = {}
        """By kind of pod, set and domain."""
        self._touched: dict[int, tuple[int, State]] = {}
        """Rows that pods use, with their class."""
        self._taken = [0] * len(self._nodes.rows)
        """How many rows of each class are touched: the first ones."""
        self._sum = 0
        """Of the codes of all touched rows, whichever of their class they are."""
        self._codes: dict[tuple[int, State], int] = {}
        """Of a class of nodes and what is left of one of them: numbers of which no two sums are
        equal, for all that is known."""
        self._dice = Random(0)  # noqa: S311 - codes are no secret

    def _choices(self, pod: OrderedPod) -> Iterator[_StateStep]:
        """The tightest first."""
        if not self._pay(len(self._touched) // _LOOKS_PER_STEP):
            return iter(())
        used = sorted(self._on_touched(pod), key=_tightness)
        return (
            merge(used, self._on_untouched(pod), key=_tightness)
            if used
            else (self._on_untouched(pod))
        )

    def _on_touched(self, pod: OrderedPod) -> Iterator[_StateStep]:
        able, lefts = self._able[pod.kind], self._nodes.lefts
        for row, (number, state) in self._touched.items():
            if number in able and (found := lefts(pod.kind, state)):
                decided = self._deciding(pod, self._nodes.domains[number])
                if decided is not None:
                    for after, shares in found:
                        place = Place(pod.member, row, shares)
                        yield _StateStep(place, decided, number, state, after)

    def _on_untouched(self, pod: OrderedPod) -> Iterator[_StateStep]:
        nodes, looks = self._nodes, 0
        for after, number, shares in self._in_order(pod):
            looks += 1
            if looks == _LOOKS_PER_STEP:
                looks = 0
                if not self._pay(1):
                    return
            if self._taken[number] == len(nodes.rows[number]):
                continue
            decided = self._deciding(pod, nodes.domains[number])
            if decided is not None:
                place = Place(pod.member, nodes.rows[number][self._taken[number]], shares)
                yield _StateStep(place, decided, number, None, after)

    def _in_order(self, pod: OrderedPod) -> list[_Untouched]:
        """How a pod may use untouched nodes, in the domain of its narrowest set that has one, the
        tightest first."""
        key = pod.kind, ABSENT, ABSENT
        for each in reversed(pod.sets):
            if self._domains[each] != ABSENT:
                key = pod.kind, each, self._domains[each]
                break
        found = self._inside.get(key)
        if found is None:
            classes = self._nodes.able[pod.kind]
            if not self._pay(len(classes) // _LOOKS_PER_STEP):
                return []
            _, each, domain = key
            found = self._inside[key] = [
                (after, number, shares)
                for number in classes
                if each == ABSENT or self._nodes.domains[number][each] == domain
                for after, shares in self._nodes.lefts(pod.kind, self._nodes.states[number])
            ]
            found.sort(key=lambda one: (one[0], self._nodes.rows[one[1]][0]))
        return found

    def _take(self, step: _StateStep) -> None:
        if step.before is None:
            self._taken[step.number] += 1
        else:
            self._sum -= self._code(step.number, step.before)
        self._sum += self._code(step.number, step.after)
        self._touched[step.place.row] = step.number, step.after
        for each in step.decided:
            self._domains[each] = self._nodes.domains[step.number][each]

    def _take_back(self, step: _StateStep) -> None:
        self._sum -= self._code(step.number, step.after)
        if step.before is None:
            self._taken[step.number] -= 1
            del self._touched[step.place.row]
        else:
            self._sum += self._code(step.number, step.before)
            self._touched[step.place.row] = step.number, step.before
        for each in step.decided:
            self._domains[each] = ABSENT

    def _used(self) -> Hashable:
        return self._sum

    def _code(self, number: int, state: State) -> int:
        code = self._codes.get((number, state))
        if code is None:
            code = self._codes[number, state] = self._dice.getrandbits(64)
        return code


@dataclass(frozen=True, slots=True)
class _TrialStep(_Step):
    kind: int
    domains: tuple[int, ...]


class TrialSearch(Backtracking[_TrialStep]):
    """By booking every choice."""

    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Rooms,
        order: PodOrder,
        rows: Rows,
        gang: str,
        budget: SearchBudget,
    ) -> None:
        claims = any(member.shape.claims for member in order.kinds)
        cost = claims_cost(len(rows)) if claims else _TRIAL_STEPS + len(rows) // _TRIAL_ROWS
        super().__init__(order, budget, cost)
        self._snapshot = snapshot
        self._rooms = rooms
        self._rows = rows
        self._gang = gang
        self._marks: list[int] = []
        self._placed: dict[tuple[int, int], int] = {}
        """How many pods of a kind are on a row."""

    def _choices(self, pod: OrderedPod) -> Iterator[_TrialStep]:
        """In order of preference."""
        shape, rows = pod.member.shape, self._rows
        keys = self._rooms.keys(shape)[rows]
        against = objections(self._snapshot, pod.member)
        if against is not None:
            keys = np.where(against[rows] == 0, keys, -1)
        best = np.argsort(-keys, kind="stable")
        for looks, row in enumerate(rows[best[keys[best] >= 0]].tolist(), 1):
            if looks % _LOOKS_PER_STEP == 0 and not self._pay(1):
                return
            domains = self._domains_of(row)
            decided = self._deciding(pod, domains)
            if decided is not None:
                yield _TrialStep(Place(pod.member, row), decided, pod.kind, domains)

    def _domains_of(self, row: int) -> tuple[int, ...]:
        labels = self._snapshot.labels
        return tuple(int(labels.column(level).codes[row]) for level in self._order.levels)

    def _take(self, step: _TrialStep) -> None:
        self._marks.append(self._snapshot.mark())
        place = step.place
        self._snapshot.book_all(bookings_for(self._snapshot, place.row, [place.member], self._gang))
        key = place.row, step.kind
        self._placed[key] = self._placed.get(key, 0) + 1
        for each in step.decided:
            self._domains[each] = step.domains[each]

    def _take_back(self, step: _TrialStep) -> None:
        self._snapshot.undo(self._marks.pop())
        key = step.place.row, step.kind
        self._placed[key] -= 1
        for each in step.decided:
            self._domains[each] = ABSENT

    def _used(self) -> Hashable:
        return frozenset(item for item in self._placed.items() if item[1])
