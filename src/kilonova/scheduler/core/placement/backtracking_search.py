"""A complete search for the placement of a gang, where the greedy attempt found none.

Pods are assigned one by one to a node, and to fractions of devices there; where a pod has no choice
left, the previous pod moves to its next choice. Equivalent nodes are tried once, and a state
reached by the same choices in another order is visited once: so small gangs are decided exactly,
and large clusters of equal nodes cost little. The search stops when its `SearchBudget` is exceeded.

`StateSearch` works on a model of what is left of nodes (`NodeStates`). Where the model does not
cover all rules, such as affinity or claims, `TrialSearch` adds every choice to the snapshot, which
covers them all and costs a hundred times as much; devices are then selected by the node.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from heapq import merge
from random import Random
from typing import Generic, TypeVar

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import ABSENT, Rows
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.anti_affinity import find_exclusive_level
from kilonova.scheduler.core.placement.node_states import NodeState, NodeStates, can_model
from kilonova.scheduler.core.placement.pod_order import OrderedPod, PodOrder
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.topology.gang_tree import GangPart

MAX_PODS = 256
"""For larger gangs there is no complete search: it would not end."""

_NODES_PER_STEP = 8
"""Number of nodes examined for the cost of one step."""

_ROWS_PER_STEP = 32
"""Number of rows per step of the initial cost of a search, for each shape."""

_TRIAL_STEPS, _TRIAL_ROWS = 16, 32
"""The cost of a choice that is added to the snapshot, and the number of rows for each step more."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A pod, its row, and how much was free of each device of which it takes a fraction."""

    member: Member
    row: int
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """The assignment of one pod."""

    choice: NodeChoice
    decided: tuple[int, ...]
    """Pod sets whose domain this assignment fixes."""


def search_placement(
    snapshot: Snapshot,
    feasibility: FeasibilityCache,
    root: GangPart,
    rows: Rows,
    gang: str,
    budget: SearchBudget,
) -> list[NodeChoice] | None:
    """A node among some rows for each required pod of a gang; None if there is none, or the budget
    is exceeded. The snapshot does not change."""
    if budget.is_spent:
        return None
    leaves = [leaf for leaf in root.leaves() if leaf.required_shapes]
    shapes = {shape for leaf in leaves for shape, _ in leaf.required_shapes}
    if len(leaves) == len(shapes) == 1 and _is_greedy_exact(leaves[0]):
        return None  # the greedy attempt is exact
    is_known = all(can_model(snapshot, shape, rows) for shape in shapes)
    if sum(number for leaf in leaves for _, number in leaf.required_shapes) > MAX_PODS:
        budget.exceeded = True
        return None
    if not budget.spend(len(rows) * len(shapes) // _ROWS_PER_STEP):
        return None
    order = PodOrder(snapshot, feasibility, root, rows)
    if is_known:
        return StateSearch(snapshot, order, budget).find_choices()
    return TrialSearch(snapshot, feasibility, order, rows, gang, budget).find_choices()


def claim_search_cost(rows: int) -> int:
    """The cost of adding a pod with claims: its devices are searched on all rows again."""
    return _TRIAL_STEPS + rows


def _is_greedy_exact(leaf: GangPart) -> bool:
    """Whether pods of one shape only fill nodes, or domains with one pod each."""
    group = leaf.group
    if group is None or group.segments is not None:
        return False
    members = group.members[: group.needed]
    return not members[0].shape.claims and find_exclusive_level(members) is not None


StepT = TypeVar("StepT", bound=_Step)


class BacktrackingSearch(ABC, Generic[StepT]):
    """Depth-first search. Uses an explicit stack: recursion depth is limited."""

    def __init__(self, order: PodOrder, budget: SearchBudget, cost: int = 1) -> None:
        self._order = order
        self._budget = budget
        self._cost = cost
        """Cost of one choice."""
        self._domains = order.domains.copy()
        """Domain of each pod set, as far as it is fixed."""
        self._unfinished_sets = order.unfinished_sets()
        self._seen: set[Hashable] = set()
        self._is_abandoned = False

    def find_choices(self) -> list[NodeChoice] | None:
        pods = self._order.pods
        if self._order.has_conflicting_anchors or not all(
            len(rows) for rows in self._order.feasible_rows
        ):
            return None
        steps: list[StepT] = []
        choices = [self._choices(pods[0])]
        while len(steps) < len(pods):
            step = next(choices[-1], None)
            if self._is_abandoned or (step is not None and not self._spend(self._cost)):
                for each in reversed(steps):
                    self._revert(each)
                return None
            if step is None:
                choices.pop()
                if not steps:
                    return None
                self._revert(steps.pop())
                continue
            self._apply(step)
            steps.append(step)
            state = self._state_key(len(steps))
            if state in self._seen:
                self._revert(steps.pop())
                continue
            self._seen.add(state)
            if len(steps) < len(pods):
                choices.append(self._choices(pods[len(steps)]))
        for each in reversed(steps):
            self._revert(each)
        return [step.choice for step in steps]

    def _spend(self, steps: int) -> bool:
        """Spends steps; the search is abandoned if too few remain."""
        self._is_abandoned = not self._budget.spend(steps)
        return not self._is_abandoned

    def _state_key(self, index: int) -> Hashable:
        """Equal where the pods from this one on have the same choices."""
        domains = tuple(self._domains[each] for each in self._unfinished_sets[index])
        return index, self._usage_key(), domains

    def _newly_decided_sets(
        self, pod: OrderedPod, domains: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """Pod sets whose domain a pod would fix; None if its sets do not allow these domains."""
        decided: list[int] = []
        for each in pod.sets:
            if domains[each] == ABSENT or self._domains[each] not in (ABSENT, domains[each]):
                return None
            if self._domains[each] == ABSENT:
                decided.append(each)
        return tuple(decided)

    @abstractmethod
    def _choices(self, pod: OrderedPod) -> Iterator[StepT]:
        """Feasible choices of a pod, the best first. Generated lazily, because usually the first is
        taken. Ends when the search is abandoned."""

    @abstractmethod
    def _apply(self, step: StepT) -> None: ...

    @abstractmethod
    def _revert(self, step: StepT) -> None: ...

    @abstractmethod
    def _usage_key(self) -> Hashable:
        """What all steps use together, independent of their order."""


@dataclass(frozen=True, slots=True)
class _StateStep(_Step):
    number: int
    """Number of the node class."""
    before: NodeState | None
    """State of the row before; None if it was untouched."""
    after: NodeState


_UntouchedOption = tuple[NodeState, int, tuple[int, ...]]
"""How a pod may use a node of a class: the state after it, the class, and fractions of devices."""


def _tightness(step: _StateStep) -> tuple[NodeState, int]:
    return step.after, step.choice.row


class StateSearch(BacktrackingSearch[_StateStep]):
    """Search on the states of nodes."""

    def __init__(self, snapshot: Snapshot, order: PodOrder, budget: SearchBudget) -> None:
        super().__init__(order, budget)
        self._nodes = NodeStates(snapshot, order)
        self._usable_classes = [set(some) for some in self._nodes.usable_classes]
        self._options_by_domain: dict[tuple[int, int, int], list[_UntouchedOption]] = {}
        """By kind of pod, pod set and domain."""
        self._touched: dict[int, tuple[int, NodeState]] = {}
        """Rows in use by pods, with their class."""
        self._taken = [0] * len(self._nodes.rows)
        """Number of touched rows of each class: the first ones."""
        self._sum = 0
        """Sum of the codes of all touched rows, independent of which rows of a class they are."""
        self._codes: dict[tuple[int, NodeState], int] = {}
        """Random 64-bit codes by node class and state: equal sums mean equal states, up to a
        negligible probability."""
        self._random = Random(0)  # noqa: S311 - not used for security

    def _choices(self, pod: OrderedPod) -> Iterator[_StateStep]:
        """The tightest first."""
        if not self._spend(len(self._touched) // _NODES_PER_STEP):
            return iter(())
        used = sorted(self._choices_on_touched(pod), key=_tightness)
        return (
            merge(used, self._choices_on_untouched(pod), key=_tightness)
            if used
            else (self._choices_on_untouched(pod))
        )

    def _choices_on_touched(self, pod: OrderedPod) -> Iterator[_StateStep]:
        feasible, lefts = self._usable_classes[pod.kind], self._nodes.states_after
        for row, (number, state) in self._touched.items():
            if number in feasible and (found := lefts(pod.kind, state)):
                decided = self._newly_decided_sets(pod, self._nodes.domains[number])
                if decided is not None:
                    for after, shares in found:
                        place = NodeChoice(pod.member, row, shares)
                        yield _StateStep(place, decided, number, state, after)

    def _choices_on_untouched(self, pod: OrderedPod) -> Iterator[_StateStep]:
        nodes, looks = self._nodes, 0
        for after, number, shares in self._untouched_options(pod):
            looks += 1
            if looks == _NODES_PER_STEP:
                looks = 0
                if not self._spend(1):
                    return
            if self._taken[number] == len(nodes.rows[number]):
                continue
            decided = self._newly_decided_sets(pod, nodes.domains[number])
            if decided is not None:
                place = NodeChoice(pod.member, nodes.rows[number][self._taken[number]], shares)
                yield _StateStep(place, decided, number, None, after)

    def _untouched_options(self, pod: OrderedPod) -> list[_UntouchedOption]:
        """How a pod may use untouched nodes, in the domain of its innermost pod set with a fixed
        domain, the tightest first."""
        key = pod.kind, ABSENT, ABSENT
        for each in reversed(pod.sets):
            if self._domains[each] != ABSENT:
                key = pod.kind, each, self._domains[each]
                break
        found = self._options_by_domain.get(key)
        if found is None:
            classes = self._nodes.usable_classes[pod.kind]
            if not self._spend(len(classes) // _NODES_PER_STEP):
                return []
            _, each, domain = key
            found = self._options_by_domain[key] = [
                (after, number, shares)
                for number in classes
                if each == ABSENT or self._nodes.domains[number][each] == domain
                for after, shares in self._nodes.states_after(pod.kind, self._nodes.states[number])
            ]
            found.sort(key=lambda one: (one[0], self._nodes.rows[one[1]][0]))
        return found

    def _apply(self, step: _StateStep) -> None:
        if step.before is None:
            self._taken[step.number] += 1
        else:
            self._sum -= self._code(step.number, step.before)
        self._sum += self._code(step.number, step.after)
        self._touched[step.choice.row] = step.number, step.after
        for each in step.decided:
            self._domains[each] = self._nodes.domains[step.number][each]

    def _revert(self, step: _StateStep) -> None:
        self._sum -= self._code(step.number, step.after)
        if step.before is None:
            self._taken[step.number] -= 1
            del self._touched[step.choice.row]
        else:
            self._sum += self._code(step.number, step.before)
            self._touched[step.choice.row] = step.number, step.before
        for each in step.decided:
            self._domains[each] = ABSENT

    def _usage_key(self) -> Hashable:
        return self._sum

    def _code(self, number: int, state: NodeState) -> int:
        code = self._codes.get((number, state))
        if code is None:
            code = self._codes[number, state] = self._random.getrandbits(64)
        return code


@dataclass(frozen=True, slots=True)
class _TrialStep(_Step):
    kind: int
    domains: tuple[int, ...]


class TrialSearch(BacktrackingSearch[_TrialStep]):
    """Search with every choice added to the snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
        order: PodOrder,
        rows: Rows,
        gang: str,
        budget: SearchBudget,
    ) -> None:
        claims = any(member.shape.claims for member in order.kinds)
        cost = claim_search_cost(len(rows)) if claims else _TRIAL_STEPS + len(rows) // _TRIAL_ROWS
        super().__init__(order, budget, cost)
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._rows = rows
        self._gang = gang
        self._trials: list[int] = []
        self._placed: dict[tuple[int, int], int] = {}
        """Number of pods of a kind on a row."""

    def _choices(self, pod: OrderedPod) -> Iterator[_TrialStep]:
        """In order of ranking."""
        shape, rows = pod.member.shape, self._rows
        keys = self._feasibility.ranking_keys(shape)[rows]
        rejections = inter_pod_rejections(self._snapshot, pod.member)
        if rejections is not None:
            keys = np.where(rejections[rows] == 0, keys, -1)
        best = np.argsort(-keys, kind="stable")
        for looks, row in enumerate(rows[best[keys[best] >= 0]].tolist(), 1):
            if looks % _NODES_PER_STEP == 0 and not self._spend(1):
                return
            domains = self._domains_of(row)
            decided = self._newly_decided_sets(pod, domains)
            if decided is not None:
                yield _TrialStep(NodeChoice(pod.member, row), decided, pod.kind, domains)

    def _domains_of(self, row: int) -> tuple[int, ...]:
        labels = self._snapshot.labels
        return tuple(int(labels.column(level).codes[row]) for level in self._order.levels)

    def _apply(self, step: _TrialStep) -> None:
        self._trials.append(self._snapshot.begin_trial())
        place = step.choice
        self._snapshot.add_pods(
            make_placements(self._snapshot, place.row, [place.member], self._gang)
        )
        key = place.row, step.kind
        self._placed[key] = self._placed.get(key, 0) + 1
        for each in step.decided:
            self._domains[each] = step.domains[each]

    def _revert(self, step: _TrialStep) -> None:
        self._snapshot.rollback(self._trials.pop())
        key = step.choice.row, step.kind
        self._placed[key] -= 1
        for each in step.decided:
            self._domains[each] = ABSENT

    def _usage_key(self) -> Hashable:
        return frozenset(item for item in self._placed.items() if item[1])
