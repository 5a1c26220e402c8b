"""Type errors that the compiler cannot detect.

To the compiler every value of an object is `dyn`: it has no schemas. This infers the types of the
checked syntax from the schema, and reports undefined fields and operators on incompatible types.

It also rejects optionals as arguments of functions written in Python: the runtime would pass them
as a dangling reference and crash.
"""

from __future__ import annotations

from collections.abc import Container

from kilonova.cel.syntax import (
    Call,
    CheckedExpression,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from kilonova.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    CelType,
    list_of,
    map_of,
    optional_of,
    parse_type,
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


class TypeInference:
    """The inference for one expression. `problems` are pairs of an offset and a message."""

    def __init__(
        self, tree: CheckedExpression, python_functions: Container[str], unsupported: Container[str]
    ) -> None:
        self._tree = tree
        self._python_functions = python_functions
        self._unsupported = unsupported
        self.problems: list[tuple[int, str]] = []
        self.free_names: dict[str, list[int]] = {}
        """Nodes that use a variable of the expression itself, by name."""
        self.time_nodes: dict[int, str] = {}
        """Nodes whose value may be the string of a time, and the function that parses it."""
        self.accessed: dict[int, str] = {}
        """Nodes that use a variable for access to something inside it, and its name."""
        self.types: dict[int, CelType] = {}
        """The types of all nodes, once that of the root is inferred."""

    def infer_type(self, variables: Scope) -> CelType:
        """The type of the whole expression."""
        return self._infer(self._tree.root, variables, frozenset())

    def _infer(self, node: Node, scope: Scope, bound: frozenset[str]) -> CelType:
        type = self._infer_node(node, scope, bound)
        self.types[node.id] = type
        return type

    def _infer_node(self, node: Node, scope: Scope, bound: frozenset[str]) -> CelType:
        match node:
            case Constant():
                return CelType(node.type)
            case Identifier():
                if node.name not in bound:
                    self.free_names.setdefault(node.name, []).append(node.id)
                return self._read_type(node, scope.get(node.name) or self._checked_type(node))
            case Select():
                self._record_access(node.operand, bound)
                operand = self._infer(node.operand, scope, bound)
                found = self._infer_field(node, operand, node.field)
                return BOOL if node.test else self._read_type(node, found)
            case Call(_, "format", (text, ListLiteral() as values)):
                # The only list whose items may have different types.
                types = [self._infer(each, scope, bound) for each in (text, *values.items)]
                return self._report_mismatch(node, types) if _has_optional(types) else STRING
            case Call():
                if node.function in _LOOKUPS:
                    self._record_access(node.arguments[0], bound)
                types = [self._infer(each, scope, bound) for each in node.arguments]
                return self._infer_call(node, types)
            case ListLiteral():
                types = [self._infer(each, scope, bound) for each in node.items]
                return list_of(self._common_type(node.items, types))
            case MapLiteral():
                for key in node.keys:
                    self._infer(key, scope, bound)
                types = [self._infer(each, scope, bound) for each in node.values]
                return map_of(self._common_type(node.values, types))
            case Comprehension():
                return self._infer_fold(node, scope, bound)

    def _record_access(self, node: Node, bound: frozenset[str]) -> None:
        if isinstance(node, Identifier) and node.name not in bound:
            self.accessed[node.id] = node.name

    def _read_type(self, node: Node, type: CelType) -> CelType:
        """A value that may come directly from the object."""
        if type.name in ("timestamp", "duration"):
            self.time_nodes[node.id] = type.name
        return type

    def _infer_fold(self, node: Comprehension, scope: Scope, bound: frozenset[str]) -> CelType:
        iterable = self._infer(node.iterable, scope, bound)
        item = iterable.item or DYN
        is_map = iterable.name.startswith("map(")
        inner = {**scope, node.result_name: self._infer(node.accumulator_start, scope, bound)}
        if node.second_variable:
            inner[node.variable] = STRING if is_map else INT if iterable.item else DYN
            inner[node.second_variable] = item
        else:
            inner[node.variable] = STRING if is_map else item
        bound = bound | {node.variable, node.second_variable, node.result_name}
        self._infer(node.condition, inner, bound)
        inner[node.result_name] = self._infer(node.step, inner, bound)
        return self._infer(node.result, inner, bound)

    def _infer_field(self, node: Node, operand: CelType, name: str) -> CelType:
        if operand.fields is not None:
            found = operand.fields.get(name)
            if found is None:
                self._report(node, f"undefined field '{name}'")
                return DYN
            return found
        if operand.name.startswith("map("):
            return operand.item or DYN
        if operand.is_optional:
            return optional_of(self._infer_field(node, operand.item or DYN, name))
        if operand.name != "dyn":
            self._report(node, f"type '{operand.name}' does not support field selection")
        return DYN

    def _infer_call(self, node: Call, types: list[CelType]) -> CelType:
        function = node.function
        if function in self._unsupported:
            self._report(node, "transformMap and transformMapEntry are not supported")
            return DYN
        if function in self._python_functions and _has_optional(types):
            return self._report_mismatch(node, types)
        if function in _ARITHMETIC and len(types) == 2:
            return self._infer_arithmetic(node, types[0], types[1])
        if function in _COMPARISONS:
            self._check_comparison(node, types[0], types[1])
            return BOOL
        if function in ("_==_", "_!=_"):
            if not _are_comparable(types[0], types[1]):
                self._report_mismatch(node, types)
            return BOOL
        if function == "!_":
            return BOOL if types[0].name in ("bool", "dyn") else self._report_mismatch(node, types)
        if function in ("_&&_", "_||_"):
            for argument, type in zip(node.arguments, types, strict=True):
                if type.name not in ("bool", "dyn"):
                    self._report(argument, f"expected type 'bool' but found '{type.name}'")
            return BOOL
        if function in _LOOKUPS:
            return self._read_type(node, self._infer_index(node, types[0]))
        if function in ("value", "orValue") and types[0].is_optional:
            return self._read_type(node, types[0].item or DYN)
        if function == "_?_:_":
            return self._either_type(node, types)
        if function == "@in":
            item = types[1].item
            if types[1].name.startswith("list(") and item and not _are_comparable(types[0], item):
                self._report_mismatch(node, types)
            return BOOL
        if function == "dyn" and types[0].is_optional:
            return self._report_mismatch(node, types)
        result = self._checked_type(node)
        if _has_optional(types) and "dyn" in result.name:
            return optional_of(DYN)
        return result

    def _infer_index(self, node: Call, operand: CelType) -> CelType:
        source = operand.item or DYN if operand.name.startswith("optional_type(") else operand
        if source.name in _SCALARS or (source.fields is not None and node.function != "_?._"):
            return self._report_mismatch(node, [operand, self._checked_type(node.arguments[1])])
        name = node.arguments[1]
        if node.function == "_?._" and isinstance(name, Constant):
            found = self._infer_field(node, source, name.text)
        else:
            found = source.item or DYN
        plain = node.function == "_[_]" and source is operand
        return found if plain else optional_of(found)

    def _infer_arithmetic(self, node: Call, left: CelType, right: CelType) -> CelType:
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
        return CelType(result) if result else self._report_mismatch(node, [left, right])

    def _check_comparison(self, node: Call, left: CelType, right: CelType) -> None:
        names = {left.name, right.name} - {"dyn"}
        if not names <= _ORDERED or (len(names) == 2 and not names <= set(_NUMBERS)):
            self._report_mismatch(node, [left, right])

    def _common_type(self, nodes: tuple[Node, ...], types: list[CelType]) -> CelType:
        """The common type of nodes that must have one; `dyn` matches any but an optional."""
        common = DYN
        for node, type in zip(nodes, types, strict=True):
            if common is DYN and not (type.is_optional and types[0] is not type):
                common = type
            elif not _are_comparable(common, type) or common.is_optional != type.is_optional:
                self._report(node, f"expected type '{common.name}' but found '{type.name}'")
        return common

    def _either_type(self, node: Call, types: list[CelType]) -> CelType:
        first, second = types[1:]
        if not _are_comparable(first, second) or first.is_optional != second.is_optional:
            return self._report_mismatch(node, types)
        return second if first.name == "dyn" else first

    def _checked_type(self, node: Node) -> CelType:
        return parse_type(self._tree.types.get(node.id, "dyn"))

    def _report_mismatch(self, node: Call, types: list[CelType]) -> CelType:
        names = ", ".join(each.name for each in types)
        self._report(
            node, f"found no matching overload for '{node.function}' applied to '({names})'"
        )
        return DYN

    def _report(self, node: Node, message: str) -> None:
        self.problems.append((self._tree.positions.get(node.id, 0), message))


def _has_optional(types: list[CelType]) -> bool:
    return any(each.is_optional for each in types)


def _are_comparable(left: CelType, right: CelType) -> bool:
    """Whether values of both types can be equal."""
    if "dyn" in (left.name, right.name):
        return True
    if "null" in (left.name, right.name):
        return not {left.name, right.name} & _NEVER_NULL
    if left.item is not None and right.item is not None:
        return left.name[:4] == right.name[:4] and _are_comparable(left.item, right.item)
    if left.fields is not None or right.fields is not None:
        return (left.fields is not None) == (right.fields is not None)
    return left.name == right.name
