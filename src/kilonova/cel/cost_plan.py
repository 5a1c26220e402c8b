"""Cost planning: the nodes of an expression at which its cost is metered.

Values that are stored in others, copied or scanned are weighed first; loops check the time limit in
every iteration, as do comparisons, which may be long. Three functions whose results may be larger
than all their arguments are replaced by implementations that check the size first. Since every
value has been charged in full when it is created, no single operation takes long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kilonova.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from kilonova.cel.types import CelType

_REPLACED = {"lists.range": "@range", "join": "@join", "replace": "@replace"}

_COMPARISON_FUNCTIONS = {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"}
_SCANNING_FUNCTIONS = {"contains": 0, "startsWith": 0, "endsWith": 0, "size": 0, "@in": 1}
"""Calls that create nothing, but take time in proportion to their arguments: the smaller of the
two, or one of them.
"""

_REGEX_FUNCTIONS = {"matches", "find", "findAll"}
"""Calls that may take long with any argument."""

_LOOKUPS = {"_[_]", "_[?_]"}
"""Calls whose error message contains the key."""

_CONSTANT_COST_FUNCTIONS = {
    *("_?_:_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false"),
    *("_?._", "dyn", "type", "hasValue", "value", "or", "orValue", "optional.none"),
}
"""Calls with a constant cost."""

_QUADRATIC_FUNCTIONS = {
    "distinct": 4,
    "sets.contains": 1,
    "sets.equivalent": 1,
    "sets.intersects": 1,
}
"""Calls that may compare every item with every other, and the cost of one comparison."""

_SPLITTING_FUNCTIONS = {"split": 32, "findAll": 32, "url": 32}
"""Calls that may create a value for every character, and the factor by which it is larger."""

_LARGE_TYPES = ("string", "bytes", "dyn", "object", "list(", "map(", "optional_type(")

_SHORT_LITERAL = 64
"""Length of string constants that are not metered."""

_MAX_UNMETERED_NODES = 50
"""Nodes in a loop's body up to which 10,000 iterations are not metered."""


@dataclass(frozen=True, slots=True)
class CostRule:
    """How a value is weighed: how often it is copied, and the cost of comparing its items."""

    copies: int = 1
    comparisons: int = 0
    optional: bool = False


@dataclass(slots=True)
class CostPlan:
    """The nodes, by id, at which the cost of an expression is metered."""

    sized: dict[int, CostRule] = field(default_factory=dict[int, CostRule])
    ticked: set[int] = field(default_factory=set[int])
    replaced: dict[int, str] = field(default_factory=dict[int, str])
    loops: set[int] = field(default_factory=set[int])
    """Loops whose iterations are long or must be charged."""
    starts: set[int] = field(default_factory=set[int])
    appends: dict[int, str] = field(default_factory=dict[int, str])
    results: dict[int, str] = field(default_factory=dict[int, str])
    """Where a loop starts a list, appends to it and returns it, and its variable."""
    hidden: list[int] = field(default_factory=list[int])
    """Nodes that cannot be weighed: their values may contain optionals."""


def plan_costs(root: Node, types: dict[int, CelType]) -> CostPlan:
    """Plan the metering of an expression; `types` are the types of its nodes."""
    walk = _CostPlanner(types)
    walk.visit(root)
    return walk.plan


class _CostPlanner:
    def __init__(self, types: dict[int, CelType]) -> None:
        self._types = types
        self._lists: set[str] = set()
        self._visited = 0
        self._accounted = 0
        self.plan = CostPlan()

    def visit(self, node: Node) -> None:
        self._visited += 1
        match node:
            case Constant() | Identifier():
                return
            case Select():
                self.visit(node.operand)
            case Call(_, "_+_", (Identifier() as made, ListLiteral() as more)) if (
                made.name in self._lists
            ):
                self.plan.appends[node.id] = made.name
                self.visit(more)
            case Call(_, "_+_", (_, _)):
                summands = list(_addends(node))
                for index, operand in enumerate(summands):
                    self._add_cost(operand, CostRule(len(summands) - index))
                    self.visit(operand)
            case Call():
                self._visit_call(node)
                for argument in node.arguments:
                    self.visit(argument)
            case ListLiteral():
                for item in node.items:
                    self._add_cost(item, CostRule())
                    self.visit(item)
            case MapLiteral():
                for item in (*node.keys, *node.values):
                    self._add_cost(item, CostRule())
                    self.visit(item)
            case Comprehension():
                self._visit_fold(node)

    def _visit_fold(self, node: Comprehension) -> None:
        self.visit(node.iterable)
        if node.variable != "#unused" and isinstance(node.accumulator_start, ListLiteral):
            self._lists.add(node.result_name)
            self.plan.starts.add(node.accumulator_start.id)
            self.plan.results[node.result.id] = node.result_name
        else:
            self.visit(node.accumulator_start)
        visited, accounted = self._visited, self._accounted
        self.visit(node.condition)
        self.visit(node.step)
        if self._visited - visited > _MAX_UNMETERED_NODES or self._accounted > accounted:
            self.plan.loops.add(node.id)
        self.visit(node.result)

    def _visit_call(self, node: Call) -> None:
        if node.function in _REPLACED:
            self.plan.replaced[node.id] = _REPLACED[node.function]
            self._accounted += 1
            for argument in node.arguments:
                # Of a chain of such calls only the first argument, so that nesting does not grow.
                if not (isinstance(argument, Call) and argument.function in _REPLACED):
                    self._add_cost(argument, CostRule())
        elif node.function in _COMPARISON_FUNCTIONS:
            if all(self._is_large(each) for each in node.arguments):
                self.plan.ticked.add(node.id)
        elif node.function in _SCANNING_FUNCTIONS:
            if self._is_large(node.arguments[_SCANNING_FUNCTIONS[node.function]]):
                self.plan.ticked.add(node.id)
        elif node.function in _LOOKUPS:
            self._add_cost(node.arguments[1], CostRule())
        elif node.function not in _CONSTANT_COST_FUNCTIONS:
            copies, comparison_cost = (
                _SPLITTING_FUNCTIONS.get(node.function, 1),
                _QUADRATIC_FUNCTIONS.get(node.function, 0),
            )
            for argument in node.arguments:
                self._add_cost(argument, CostRule(copies, comparison_cost))
        if node.function in _REGEX_FUNCTIONS:
            self.plan.ticked.add(node.id)

    def _add_cost(self, node: Node, rule: CostRule) -> None:
        """Items of a literal are weighed one by one, and not again together."""
        if isinstance(node, ListLiteral | MapLiteral) and not rule.comparisons:
            return
        if not self._is_large(node):
            return
        type = self._types.get(node.id)
        optional = _is_optional_entry(node) or (
            type is not None and type.name.startswith("optional_type(")
        )
        inside = (
            type.item if optional and type is not None and not _is_optional_entry(node) else type
        )
        if inside is not None and inside.is_optional:
            self.plan.hidden.append(node.id)
        self._accounted += 1
        self.plan.sized[node.id] = CostRule(rule.copies, rule.comparisons, optional)

    def _is_large(self, node: Node) -> bool:
        """Whether the value may be large."""
        if isinstance(node, Constant):
            return len(node.text) > _SHORT_LITERAL or node.type == "bytes"
        if isinstance(node, ListLiteral):
            return any(map(self._is_large, node.items))
        type = self._types.get(node.id)
        return type is None or _is_optional_entry(node) or type.name.startswith(_LARGE_TYPES)


def _is_optional_entry(node: Node) -> bool:
    """Whether the node is the value of an optional entry: it evaluates to an optional."""
    return isinstance(node, Call) and any(each.id == node.id for each in node.arguments)


def _addends(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.function == "_+_" and len(node.arguments) == 2:
        yield from _addends(node.arguments[0])
        yield from _addends(node.arguments[1])
    else:
        yield node
