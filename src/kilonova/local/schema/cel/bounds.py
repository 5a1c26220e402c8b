"""Where an expression is made to count what it spends.

Values that are put into others, copied or worked through are weighed first; loops ask for time
at every turn, and so do comparisons, which may be long. Three functions whose results may be
larger than all that they are given are replaced by some that look before they leap. As every
value has been paid for in full when it is made, no single step takes long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kilonova.local.schema.cel.syntax import Call, Fold, Ident, ListOf, Literal, MapOf, Node, Select
from kilonova.local.schema.cel.types import CelType

_REPLACED = {"lists.range": "@range", "join": "@join", "replace": "@replace"}

_COMPARING = {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"}
_READING = {"contains": 0, "startsWith": 0, "endsWith": 0, "size": 0, "@in": 1}
"""Calls that make nothing new, but may take as long as their arguments are large: the smaller
of the two, or one of them."""

_SEARCHING = {"matches", "find", "findAll"}
"""Calls that may take long whatever they are given."""

_LOOKUPS = {"_[_]", "_[?_]"}
"""Calls that repeat the key in their failure."""

_FREE = {
    *("_?_:_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false"),
    *("_?._", "dyn", "type", "hasValue", "value", "or", "orValue", "optional.none"),
}
"""Calls whose cost is the same whatever they are given."""

_QUADRATIC = {"distinct": 4, "sets.contains": 1, "sets.equivalent": 1, "sets.intersects": 1}
"""Calls that may compare every item with every other, and the price of one comparison."""

_SPLITTING = {"split": 32, "findAll": 32, "url": 32}
"""Calls that may make a value of every character, and how much larger than it that is."""

_LARGE = ("string", "bytes", "dyn", "object", "list(", "map(", "optional_type(")

_SHORT = 64
"""Characters of a constant that are not worth counting."""

_LONG = 50
"""Nodes of a loop's body that 10,000 turns of it may have without a look at the clock."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """How a value is weighed: how often it is copied, and the price of comparing its items."""

    copies: int = 1
    comparisons: int = 0
    optional: bool = False


@dataclass(slots=True)
class Bounds:
    """Places, by node id, where an expression counts what it spends."""

    weighed: dict[int, Weighing] = field(default_factory=dict[int, Weighing])
    timed: set[int] = field(default_factory=set[int])
    replaced: dict[int, str] = field(default_factory=dict[int, str])
    loops: set[int] = field(default_factory=set[int])
    """Those whose turns are long, or must be paid for."""
    starts: set[int] = field(default_factory=set[int])
    appends: dict[int, str] = field(default_factory=dict[int, str])
    results: dict[int, str] = field(default_factory=dict[int, str])
    """Where a loop starts a list, adds to it and gives it, and the name it has."""
    hidden: list[int] = field(default_factory=list[int])
    """Places that cannot be weighed: values that have optionals somewhere inside."""


def bounds_of(root: Node, types: dict[int, CelType]) -> Bounds:
    """Where to count; `types` are those of the nodes."""
    walk = _Walk(types)
    walk.visit(root)
    return walk.bounds


class _Walk:
    def __init__(self, types: dict[int, CelType]) -> None:
        self._types = types
        self._lists: set[str] = set()
        self._visited = 0
        self._paid = 0
        self.bounds = Bounds()

    def visit(self, node: Node) -> None:
        self._visited += 1
        match node:
            case Literal() | Ident():
                return
            case Select():
                self.visit(node.operand)
            case Call(_, "_+_", (Ident() as made, ListOf() as more)) if made.name in self._lists:
                self.bounds.appends[node.id] = made.name
                self.visit(more)
            case Call(_, "_+_", (_, _)):
                summands = list(_summands(node))
                for index, operand in enumerate(summands):
                    self._weigh(operand, Weighing(len(summands) - index))
                    self.visit(operand)
            case Call():
                self._call(node)
                for argument in node.arguments:
                    self.visit(argument)
            case ListOf():
                for item in node.items:
                    self._weigh(item, Weighing())
                    self.visit(item)
            case MapOf():
                for item in (*node.keys, *node.values):
                    self._weigh(item, Weighing())
                    self.visit(item)
            case Fold():
                self._fold(node)

    def _fold(self, node: Fold) -> None:
        self.visit(node.over)
        if node.variable != "#unused" and isinstance(node.start, ListOf):
            self._lists.add(node.result_name)
            self.bounds.starts.add(node.start.id)
            self.bounds.results[node.result.id] = node.result_name
        else:
            self.visit(node.start)
        visited, paid = self._visited, self._paid
        self.visit(node.condition)
        self.visit(node.step)
        if self._visited - visited > _LONG or self._paid > paid:
            self.bounds.loops.add(node.id)
        self.visit(node.result)

    def _call(self, node: Call) -> None:
        if node.function in _REPLACED:
            self.bounds.replaced[node.id] = _REPLACED[node.function]
            self._paid += 1
            for argument in node.arguments:
                # Of a chain of them only the start, so that it gets no deeper.
                if not (isinstance(argument, Call) and argument.function in _REPLACED):
                    self._weigh(argument, Weighing())
        elif node.function in _COMPARING:
            if all(self._is_large(each) for each in node.arguments):
                self.bounds.timed.add(node.id)
        elif node.function in _READING:
            if self._is_large(node.arguments[_READING[node.function]]):
                self.bounds.timed.add(node.id)
        elif node.function in _LOOKUPS:
            self._weigh(node.arguments[1], Weighing())
        elif node.function not in _FREE:
            copies, price = _SPLITTING.get(node.function, 1), _QUADRATIC.get(node.function, 0)
            for argument in node.arguments:
                self._weigh(argument, Weighing(copies, price))
        if node.function in _SEARCHING:
            self.bounds.timed.add(node.id)

    def _weigh(self, node: Node, weighing: Weighing) -> None:
        """Items of what is written out are weighed one by one, and not once more together."""
        if isinstance(node, ListOf | MapOf) and not weighing.comparisons:
            return
        if not self._is_large(node):
            return
        type = self._types.get(node.id)
        optional = _is_entry(node) or (type is not None and type.name.startswith("optional_type("))
        inside = type.item if optional and type is not None and not _is_entry(node) else type
        if inside is not None and inside.is_optional:
            self.bounds.hidden.append(node.id)
        self._paid += 1
        self.bounds.weighed[node.id] = Weighing(weighing.copies, weighing.comparisons, optional)

    def _is_large(self, node: Node) -> bool:
        """Whether its value may be large."""
        if isinstance(node, Literal):
            return len(node.text) > _SHORT or node.type == "bytes"
        if isinstance(node, ListOf):
            return any(map(self._is_large, node.items))
        type = self._types.get(node.id)
        return type is None or _is_entry(node) or type.name.startswith(_LARGE)


def _is_entry(node: Node) -> bool:
    """Whether it is the value of an optional entry: the node itself is still the optional."""
    return isinstance(node, Call) and any(each.id == node.id for each in node.arguments)


def _summands(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.function == "_+_" and len(node.arguments) == 2:
        yield from _summands(node.arguments[0])
        yield from _summands(node.arguments[1])
    else:
        yield node
