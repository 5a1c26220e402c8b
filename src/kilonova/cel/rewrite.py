"""Rewriting of a compiled expression where its source cannot express what is needed.

The runtime supports neither times nor optionals inside input values. So a time stays a string as in
JSON, and is parsed where the expression uses it; an optional `oldSelf` is looked up in a map that
may lack it. Field access on null is an error in the runtime, whereas for Kubernetes null has no
fields: there, another variable is read, which is never null. And the runtime does not meter cost:
calls are inserted at the nodes of a `CostPlan`.
"""

from collections.abc import Iterable, Mapping

from kilonova.cel.cost_plan import CostPlan, CostRule
from kilonova.cel.syntax import Fields, read_fields

_EXPRESSIONS = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Fields of a node type (by its own field number) that are nodes again."""

_STRUCT, _STRUCT_ENTRIES, _ENTRY_NODES = 8, 2, (3, 4)

_CHUNK = 32
"""A loop that builds a list copies it in every iteration: so it builds many short ones."""


class ExpressionRewriter:
    """Replacements by node id: `calls` wraps a node in a function call, `lookups` replaces it by
    the optional entry `value` of a variable, `names` by another variable.
    """

    def __init__(
        self,
        calls: dict[int, str],
        lookups: Iterable[int],
        variable: str,
        names: Mapping[int, str],
        cost_plan: CostPlan,
    ) -> None:
        self._calls = calls
        self._names = names
        self._lookups = frozenset(lookups)
        self._variable = variable
        self._cost_plan = cost_plan
        self._next_id = 1 << 20

    def rewrite(self, serialized: bytes) -> bytes:
        """Rewrite the output of `Expression.serialize`."""
        outer = read_fields(serialized)
        for index, (number, value) in enumerate(outer):
            if number == 2 and isinstance(value, bytes):
                checked = read_fields(value)
                outer[index] = (2, _encode_fields(self._rewrite_nodes(checked, (4,))))
        return _encode_fields(outer)

    def _rewrite_nodes(self, fields: Fields, numbers: tuple[int, ...]) -> Fields:
        return [
            (number, self._rewrite_node(value))
            if number in numbers and isinstance(value, bytes)
            else (number, value)
            for number, value in fields
        ]

    def _rewrite_node(self, encoded: bytes) -> bytes:
        fields = read_fields(encoded)
        id = next((value for number, value in fields if number == 2), 0)
        assert isinstance(id, int)
        rewritten = self._replace_node(id, fields)
        if id in self._cost_plan.ticked:
            rewritten = self._conditional_on_cost(self._tick_call(), rewritten)
        cost_rule = self._cost_plan.sized.get(id)
        return rewritten if cost_rule is None else self._check_cost(rewritten, cost_rule)

    def _replace_node(self, id: int, fields: Fields) -> bytes:
        if id in self._lookups:
            return self._call("_?._", self._variable_node(self._variable), self._text_node("value"))
        if id in self._names:
            return self._variable_node(self._names[id])
        if id in self._cost_plan.starts:
            return self._list(self._list(), self._list())
        if id in self._cost_plan.results:
            return self._join_chunks(self._cost_plan.results[id])
        parts: Fields = [(number, self._rewrite_body(number, value)) for number, value in fields]
        if id in self._cost_plan.replaced:
            parts = _replace_part(parts, 6, 2, self._cost_plan.replaced[id].encode())
        if id in self._cost_plan.appends:
            return self._append_to_chunks(parts, self._cost_plan.appends[id])
        if id in self._cost_plan.loops:
            parts = self._tick_loop(parts)
        function = self._calls.get(id)
        return (
            _encode_fields(parts)
            if function is None
            else self._call(function, _encode_fields(parts))
        )

    def _tick_loop(self, parts: Fields) -> Fields:
        condition = _find_message(read_fields(_find_message(parts, 9)), 5)
        return _replace_part(parts, 9, 5, self._call("_&&_", condition, self._tick_call()))

    def _append_to_chunks(self, parts: Fields, name: str) -> bytes:
        """`list + [x]`, where the list is a pair: full chunks, and the chunk being filled."""
        addend = [value for number, value in read_fields(_find_message(parts, 6)) if number == 3][
            -1
        ]
        assert isinstance(addend, bytes)
        before = self._variable_node(name)
        chunks, last = self._item(before, 0), self._item(before, 1)
        has_capacity = self._call("_<_", self._call("size", last), self._number_node(_CHUNK))
        next_chunk = self._list(self._call("_+_", chunks, self._list(last)), self._list())
        pair = f"@pair{self._next_id}"
        after = self._variable_node(pair)
        appended = self._call("_+_", self._item(after, 1), addend)
        return self._bind(
            pair,
            self._call("_?_:_", has_capacity, before, next_chunk),
            self._list(self._item(after, 0), appended),
        )

    def _join_chunks(self, name: str) -> bytes:
        pair = self._variable_node(name)
        chunks, last = self._item(pair, 0), self._item(pair, 1)
        is_single_chunk = self._call("_==_", self._call("size", chunks), self._number_node(0))
        flattened = self._make_node(6, _encode_fields([(1, chunks), (2, b"flatten")]))
        return self._call("_?_:_", is_single_chunk, last, self._call("_+_", flattened, last))

    def _check_cost(self, node: bytes, rule: CostRule) -> bytes:
        """The node's value, if memory is left for it: bound to a name, as by `cel.bind`."""
        name = f"@weighed{self._next_id}"
        value = self._variable_node(name)
        content = (
            self._make_node(
                6, _encode_fields([(1, value), (2, b"orValue"), (3, self._null_node())])
            )
            if rule.optional
            else value
        )
        costs = map(self._number_node, (rule.copies, rule.comparisons))
        # Weighing a value copies it, which must not happen either once no memory is left.
        condition = self._call("_&&_", self._tick_call(), self._call("@weigh", content, *costs))
        condition = self._call("@not_strictly_false", condition)
        return self._bind(name, node, self._conditional_on_cost(condition, value))

    def _bind(self, name: str, value: bytes, result: bytes) -> bytes:
        """`cel.bind`: a loop over an empty list."""
        loop: Fields = [
            (1, b"#unused"),
            (2, self._list()),
            (3, name.encode()),
            (4, value),
            (5, self._make_node(3, _encode_fields([(2, 0)]))),
            (6, self._variable_node(name)),
            (7, result),
        ]
        return self._make_node(9, _encode_fields(loop))

    def _tick_call(self) -> bytes:
        return self._call("@tick", self._number_node(0))

    def _conditional_on_cost(self, check: bytes, node: bytes) -> bytes:
        return self._call("_?_:_", check, node, self._call("@exhausted", self._number_node(0)))

    def _rewrite_body(self, number: int, value: int | bytes) -> int | bytes:
        if isinstance(value, int):
            return value
        if number in _EXPRESSIONS:
            return _encode_fields(self._rewrite_nodes(read_fields(value), _EXPRESSIONS[number]))
        if number == _STRUCT:
            return _encode_fields(
                [
                    (part, _encode_fields(self._rewrite_nodes(read_fields(entry), _ENTRY_NODES)))
                    if part == _STRUCT_ENTRIES and isinstance(entry, bytes)
                    else (part, entry)
                    for part, entry in read_fields(value)
                ]
            )
        return value

    def _call(self, function: str, *arguments: bytes) -> bytes:
        inputs: Fields = [(3, argument) for argument in arguments]
        return self._make_node(6, _encode_fields([(2, function.encode()), *inputs]))

    def _item(self, node: bytes, index: int) -> bytes:
        return self._call("_[_]", node, self._number_node(index))

    def _list(self, *items: bytes) -> bytes:
        return self._make_node(7, _encode_fields([(1, item) for item in items]))

    def _variable_node(self, name: str) -> bytes:
        return self._make_node(4, _encode_fields([(1, name.encode())]))

    def _text_node(self, text: str) -> bytes:
        return self._make_node(3, _encode_fields([(6, text.encode())]))

    def _number_node(self, number: int) -> bytes:
        return self._make_node(3, _encode_fields([(3, number)]))

    def _null_node(self) -> bytes:
        return self._make_node(3, _encode_fields([(1, 0)]))

    def _make_node(self, number: int, body: bytes) -> bytes:
        self._next_id += 1
        return _encode_fields([(2, self._next_id), (number, body)])


def _find_message(fields: Fields, number: int) -> bytes:
    value = dict(fields)[number]
    assert isinstance(value, bytes)
    return value


def _replace_part(fields: Fields, number: int, subfield: int, value: bytes) -> Fields:
    """The fields with another value for a subfield of one of them."""
    return [
        (
            each,
            _encode_fields([(p, value if p == subfield else old) for p, old in read_fields(body)]),
        )
        if each == number and isinstance(body, bytes)
        else (each, body)
        for each, body in fields
    ]


def _encode_fields(fields: Fields) -> bytes:
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            parts += (_encode_varint(number << 3), _encode_varint(value))
        else:
            parts += (_encode_varint(number << 3 | 2), _encode_varint(len(value)), value)
    return b"".join(parts)


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
