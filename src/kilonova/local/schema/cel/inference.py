"""Type errors that the compiler cannot see.

To the compiler every value of an object is `dyn`: it knows no schemas. This walks the checked
syntax once more with the types that the schema gives, and finds fields that do not exist and
operators between types that do not go together.

It also keeps optionals away from functions written in Python: the runtime would pass them on
as a broken reference and crash.
"""

from __future__ import annotations

from collections.abc import Container

from kilonova.local.schema.cel.syntax import (
    Call,
    Fold,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Node,
    Select,
    Tree,
)
from kilonova.local.schema.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    CelType,
    list_of,
    map_of,
    optional_of,
    type_named,
)

Scope = dict[str, CelType]

_NUMBERS = ("int", "uint", "double")
_NEVER_NULL = {*_NUMBERS, "bool", "string", "bytes"}
_LOOKUPS = ("_[_]", "_[?_]", "_?._")
_COMPARISONS = {"_<_", "_<=_", "_>_", "_>=_"}
_ORDERED = {*_NUMBERS, "string", "bytes", "bool", "timestamp", "duration"}
_SCALARS = {*_ORDERED, "null"}
_ARITHMETIC = {
    "_+_": {
        **{(name, name): name for name in (*_NUMBERS, "string", "bytes", "duration")},
        ("timestamp", "duration"): "timestamp",
        ("duration", "timestamp"): "timestamp",
    },
    "_-_": {
        **{(name, name): name for name in (*_NUMBERS, "duration")},
        ("timestamp", "duration"): "timestamp",
        ("timestamp", "timestamp"): "duration",
    },
    "_*_": {(name, name): name for name in _NUMBERS},
    "_/_": {(name, name): name for name in _NUMBERS},
    "_%_": {(name, name): name for name in ("int", "uint")},
}


class Inference:
    """One walk over one expression. `problems` are pairs of an offset and a message."""

    def __init__(
        self, tree: Tree, python_functions: Container[str], unsupported: Container[str]
    ) -> None:
        self._tree = tree
        self._python_functions = python_functions
        self._unsupported = unsupported
        self.problems: list[tuple[int, str]] = []
        self.free_names: dict[str, list[int]] = {}
        """Nodes where variables of the expression itself are used, by name."""
        self.times: dict[int, str] = {}
        """Nodes whose value may still be the text of a time, and what reads it."""
        self.looked_into: dict[int, str] = {}
        """Nodes where a variable is used to get at something inside it, and its name."""
        self.types: dict[int, CelType] = {}
        """The types of all nodes, once that of the whole is known."""

    def type(self, variables: Scope) -> CelType:
        """The type of the whole expression."""
        return self._type(self._tree.root, variables, frozenset())

    def _type(self, node: Node, scope: Scope, bound: frozenset[str]) -> CelType:
        type = self._found(node, scope, bound)
        self.types[node.id] = type
        return type

    def _found(self, node: Node, scope: Scope, bound: frozenset[str]) -> CelType:
        match node:
            case Literal():
                return CelType(node.type)
            case Ident():
                if node.name not in bound:
                    self.free_names.setdefault(node.name, []).append(node.id)
                return self._read(node, scope.get(node.name) or self._checked(node))
            case Select():
                self._look_into(node.operand, bound)
                operand = self._type(node.operand, scope, bound)
                found = self._field(node, operand, node.field)
                return BOOL if node.test else self._read(node, found)
            case Call(_, "format", (text, ListOf() as values)):
                # The one list whose items may be of any types.
                types = [self._type(each, scope, bound) for each in (text, *values.items)]
                return self._mismatch(node, types) if _any_optional(types) else STRING
            case Call():
                if node.function in _LOOKUPS:
                    self._look_into(node.arguments[0], bound)
                types = [self._type(each, scope, bound) for each in node.arguments]
                return self._call(node, types)
            case ListOf():
                types = [self._type(each, scope, bound) for each in node.items]
                return list_of(self._common(node.items, types))
            case MapOf():
                for key in node.keys:
                    self._type(key, scope, bound)
                types = [self._type(each, scope, bound) for each in node.values]
                return map_of(self._common(node.values, types))
            case Fold():
                return self._fold(node, scope, bound)

    def _look_into(self, node: Node, bound: frozenset[str]) -> None:
        if isinstance(node, Ident) and node.name not in bound:
            self.looked_into[node.id] = node.name

    def _read(self, node: Node, type: CelType) -> CelType:
        """A value that may come straight from the object."""
        if type.name in ("timestamp", "duration"):
            self.times[node.id] = type.name
        return type

    def _fold(self, node: Fold, scope: Scope, bound: frozenset[str]) -> CelType:
        over = self._type(node.over, scope, bound)
        item = over.item or DYN
        is_map = over.name.startswith("map(")
        inner = {**scope, node.result_name: self._type(node.start, scope, bound)}
        if node.second_variable:
            inner[node.variable] = STRING if is_map else INT if over.item else DYN
            inner[node.second_variable] = item
        else:
            inner[node.variable] = STRING if is_map else item
        bound = bound | {node.variable, node.second_variable, node.result_name}
        self._type(node.condition, inner, bound)
        inner[node.result_name] = self._type(node.step, inner, bound)
        return self._type(node.result, inner, bound)

    def _field(self, node: Node, operand: CelType, name: str) -> CelType:
        if operand.fields is not None:
            found = operand.fields.get(name)
            if found is None:
                self._report(node, f"undefined field '{name}'")
                return DYN
            return found
        if operand.name.startswith("map("):
            return operand.item or DYN
        if operand.is_optional:
            return optional_of(self._field(node, operand.item or DYN, name))
        if operand.name != "dyn":
            self._report(node, f"type '{operand.name}' does not support field selection")
        return DYN

    def _call(self, node: Call, types: list[CelType]) -> CelType:
        function = node.function
        if function in self._unsupported:
            self._report(node, "transformMap and transformMapEntry are not supported")
            return DYN
        if function in self._python_functions and _any_optional(types):
            return self._mismatch(node, types)
        if function in _ARITHMETIC and len(types) == 2:
            return self._arithmetic(node, types[0], types[1])
        if function in _COMPARISONS:
            self._compare(node, types[0], types[1])
            return BOOL
        if function in ("_==_", "_!=_"):
            if not _alike(types[0], types[1]):
                self._mismatch(node, types)
            return BOOL
        if function == "!_":
            return BOOL if types[0].name in ("bool", "dyn") else self._mismatch(node, types)
        if function in ("_&&_", "_||_"):
            for argument, type in zip(node.arguments, types, strict=True):
                if type.name not in ("bool", "dyn"):
                    self._report(argument, f"expected type 'bool' but found '{type.name}'")
            return BOOL
        if function in _LOOKUPS:
            return self._read(node, self._index(node, types[0]))
        if function in ("value", "orValue") and types[0].is_optional:
            return self._read(node, types[0].item or DYN)
        if function == "_?_:_":
            return self._either(node, types)
        if function == "@in":
            item = types[1].item
            if types[1].name.startswith("list(") and item and not _alike(types[0], item):
                self._mismatch(node, types)
            return BOOL
        if function == "dyn" and types[0].is_optional:
            return self._mismatch(node, types)
        result = self._checked(node)
        if _any_optional(types) and "dyn" in result.name:
            return optional_of(DYN)
        return result

    def _index(self, node: Call, operand: CelType) -> CelType:
        source = operand.item or DYN if operand.name.startswith("optional_type(") else operand
        if source.name in _SCALARS or (source.fields is not None and node.function != "_?._"):
            return self._mismatch(node, [operand, self._checked(node.arguments[1])])
        name = node.arguments[1]
        if node.function == "_?._" and isinstance(name, Literal):
            found = self._field(node, source, name.text)
        else:
            found = source.item or DYN
        plain = node.function == "_[_]" and source is operand
        return found if plain else optional_of(found)

    def _arithmetic(self, node: Call, left: CelType, right: CelType) -> CelType:
        if node.function == "_+_" and (left.name.startswith("list(") or right.item is not None):
            return right if left.item in (None, DYN) else left
        overloads = _ARITHMETIC[node.function]
        if "dyn" in (left.name, right.name):
            results = {
                result
                for (first, second), result in overloads.items()
                if left.name in (first, "dyn") and right.name in (second, "dyn")
            }
            return CelType(results.pop()) if len(results) == 1 else DYN
        result = overloads.get((left.name, right.name))
        return CelType(result) if result else self._mismatch(node, [left, right])

    def _compare(self, node: Call, left: CelType, right: CelType) -> None:
        names = {left.name, right.name} - {"dyn"}
        if not names <= _ORDERED or (len(names) == 2 and not names <= set(_NUMBERS)):
            self._mismatch(node, [left, right])

    def _common(self, nodes: tuple[Node, ...], types: list[CelType]) -> CelType:
        """The type of things that must be of one type; `dyn` goes with any but an optional."""
        common = DYN
        for node, type in zip(nodes, types, strict=True):
            if common is DYN and not (type.is_optional and types[0] is not type):
                common = type
            elif not _alike(common, type) or common.is_optional != type.is_optional:
                self._report(node, f"expected type '{common.name}' but found '{type.name}'")
        return common

    def _either(self, node: Call, types: list[CelType]) -> CelType:
        first, second = types[1:]
        if not _alike(first, second) or first.is_optional != second.is_optional:
            return self._mismatch(node, types)
        return second if first.name == "dyn" else first

    def _checked(self, node: Node) -> CelType:
        return type_named(self._tree.types.get(node.id, "dyn"))

    def _mismatch(self, node: Call, types: list[CelType]) -> CelType:
        listed = ", ".join(each.name for each in types)
        self._report(
            node, f"found no matching overload for '{node.function}' applied to '({listed})'"
        )
        return DYN

    def _report(self, node: Node, message: str) -> None:
        self.problems.append((self._tree.positions.get(node.id, 0), message))


def _any_optional(types: list[CelType]) -> bool:
    return any(each.is_optional for each in types)


def _alike(left: CelType, right: CelType) -> bool:
    """Whether values of both can be equal."""
    if "dyn" in (left.name, right.name):
        return True
    if "null" in (left.name, right.name):
        return not {left.name, right.name} & _NEVER_NULL
    if left.item is not None and right.item is not None:
        return left.name[:4] == right.name[:4] and _alike(left.item, right.item)
    if left.fields is not None or right.fields is not None:
        return (left.fields is not None) == (right.fields is not None)
    return left.name == right.name
