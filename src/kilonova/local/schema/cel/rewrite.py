"""Changing a compiled expression, where the runtime cannot be told by its source.

The runtime takes neither times nor optionals inside the values it is given. So a time stays
the text that it is in JSON, and is read where the expression uses it; and an optional
`oldSelf` is looked up in a map that has it or not. Nor does it look for fields in null, which
to Kubernetes just has none: where that is done, another variable is read, which is never null.
And it does not count what an expression spends: at the places in `Bounds` it is made to.
"""

from collections.abc import Iterable, Mapping

from kilonova.local.schema.cel.bounds import Bounds, Weighing
from kilonova.local.schema.cel.syntax import Fields, read_fields

_EXPRESSIONS = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Fields of a kind of node (by its own field number) that are nodes again."""

_STRUCT, _STRUCT_ENTRIES, _ENTRY_NODES = 8, 2, (3, 4)

_CHUNK = 32
"""A loop that makes a list copies it at every turn: so it makes many short ones."""


class Rewrite:
    """Replacements by node id: `calls` puts a function around a node, `lookups` replaces it
    by the optional entry `value` of a variable, `names` by another variable."""

    def __init__(
        self,
        calls: dict[int, str],
        lookups: Iterable[int],
        variable: str,
        names: Mapping[int, str],
        bounds: Bounds,
    ) -> None:
        self._calls = calls
        self._names = names
        self._lookups = frozenset(lookups)
        self._variable = variable
        self._bounds = bounds
        self._next_id = 1 << 20

    def apply(self, serialized: bytes) -> bytes:
        """Rewrite what `Expression.serialize` gave."""
        outer = read_fields(serialized)
        for index, (number, value) in enumerate(outer):
            if number == 2 and isinstance(value, bytes):
                checked = read_fields(value)
                outer[index] = (2, _encoded(self._nodes(checked, (4,))))
        return _encoded(outer)

    def _nodes(self, fields: Fields, numbers: tuple[int, ...]) -> Fields:
        return [
            (number, self._node(value))
            if number in numbers and isinstance(value, bytes)
            else (number, value)
            for number, value in fields
        ]

    def _node(self, encoded: bytes) -> bytes:
        fields = read_fields(encoded)
        id = next((value for number, value in fields if number == 2), 0)
        assert isinstance(id, int)
        made = self._replaced(id, fields)
        if id in self._bounds.timed:
            made = self._if_affordable(self._tick(), made)
        weighing = self._bounds.weighed.get(id)
        return made if weighing is None else self._weighed(made, weighing)

    def _replaced(self, id: int, fields: Fields) -> bytes:
        if id in self._lookups:
            return self._call("_?._", self._variable_node(self._variable), self._text_node("value"))
        if id in self._names:
            return self._variable_node(self._names[id])
        if id in self._bounds.starts:
            return self._list(self._list(), self._list())
        if id in self._bounds.results:
            return self._joined(self._bounds.results[id])
        parts: Fields = [(number, self._body(number, value)) for number, value in fields]
        if id in self._bounds.replaced:
            parts = _edited(parts, 6, 2, self._bounds.replaced[id].encode())
        if id in self._bounds.appends:
            return self._appended(parts, self._bounds.appends[id])
        if id in self._bounds.loops:
            parts = self._timed_loop(parts)
        function = self._calls.get(id)
        return _encoded(parts) if function is None else self._call(function, _encoded(parts))

    def _timed_loop(self, parts: Fields) -> Fields:
        condition = _message(read_fields(_message(parts, 9)), 5)
        return _edited(parts, 9, 5, self._call("_&&_", condition, self._tick()))

    def _appended(self, parts: Fields, name: str) -> bytes:
        """`list + [x]`, where the list is a pair: full chunks, and the one that is filled."""
        more = [value for number, value in read_fields(_message(parts, 6)) if number == 3][-1]
        assert isinstance(more, bytes)
        before = self._variable_node(name)
        chunks, last = self._item(before, 0), self._item(before, 1)
        room = self._call("_<_", self._call("size", last), self._number_node(_CHUNK))
        moved = self._list(self._call("_+_", chunks, self._list(last)), self._list())
        pair = f"@pair{self._next_id}"
        after = self._variable_node(pair)
        grown = self._call("_+_", self._item(after, 1), more)
        return self._bind(
            pair,
            self._call("_?_:_", room, before, moved),
            self._list(self._item(after, 0), grown),
        )

    def _joined(self, name: str) -> bytes:
        pair = self._variable_node(name)
        chunks, last = self._item(pair, 0), self._item(pair, 1)
        small = self._call("_==_", self._call("size", chunks), self._number_node(0))
        flat = self._made(6, _encoded([(1, chunks), (2, b"flatten")]))
        return self._call("_?_:_", small, last, self._call("_+_", flat, last))

    def _weighed(self, node: bytes, weighing: Weighing) -> bytes:
        """The node's value, if there is room for it: bound to a name, as by `cel.bind`."""
        name = f"@weighed{self._next_id}"
        value = self._variable_node(name)
        content = (
            self._made(6, _encoded([(1, value), (2, b"orValue"), (3, self._null_node())]))
            if weighing.optional
            else value
        )
        prices = map(self._number_node, (weighing.copies, weighing.comparisons))
        # To weigh a value copies it: not even that once there is no room.
        asking = self._call("_&&_", self._tick(), self._call("@weigh", content, *prices))
        asking = self._call("@not_strictly_false", asking)
        return self._bind(name, node, self._if_affordable(asking, value))

    def _bind(self, name: str, value: bytes, result: bytes) -> bytes:
        """`cel.bind`: a loop over nothing."""
        loop: Fields = [
            (1, b"#unused"),
            (2, self._list()),
            (3, name.encode()),
            (4, value),
            (5, self._made(3, _encoded([(2, 0)]))),
            (6, self._variable_node(name)),
            (7, result),
        ]
        return self._made(9, _encoded(loop))

    def _tick(self) -> bytes:
        return self._call("@tick", self._number_node(0))

    def _if_affordable(self, asking: bytes, node: bytes) -> bytes:
        return self._call("_?_:_", asking, node, self._call("@exhausted", self._number_node(0)))

    def _body(self, number: int, value: int | bytes) -> int | bytes:
        if isinstance(value, int):
            return value
        if number in _EXPRESSIONS:
            return _encoded(self._nodes(read_fields(value), _EXPRESSIONS[number]))
        if number == _STRUCT:
            return _encoded(
                [
                    (part, _encoded(self._nodes(read_fields(entry), _ENTRY_NODES)))
                    if part == _STRUCT_ENTRIES and isinstance(entry, bytes)
                    else (part, entry)
                    for part, entry in read_fields(value)
                ]
            )
        return value

    def _call(self, function: str, *arguments: bytes) -> bytes:
        inputs: Fields = [(3, argument) for argument in arguments]
        return self._made(6, _encoded([(2, function.encode()), *inputs]))

    def _item(self, node: bytes, index: int) -> bytes:
        return self._call("_[_]", node, self._number_node(index))

    def _list(self, *items: bytes) -> bytes:
        return self._made(7, _encoded([(1, item) for item in items]))

    def _variable_node(self, name: str) -> bytes:
        return self._made(4, _encoded([(1, name.encode())]))

    def _text_node(self, text: str) -> bytes:
        return self._made(3, _encoded([(6, text.encode())]))

    def _number_node(self, number: int) -> bytes:
        return self._made(3, _encoded([(3, number)]))

    def _null_node(self) -> bytes:
        return self._made(3, _encoded([(1, 0)]))

    def _made(self, number: int, body: bytes) -> bytes:
        self._next_id += 1
        return _encoded([(2, self._next_id), (number, body)])


def _message(fields: Fields, number: int) -> bytes:
    value = dict(fields)[number]
    assert isinstance(value, bytes)
    return value


def _edited(fields: Fields, number: int, part: int, value: bytes) -> Fields:
    """The fields with another value for a part of one of them."""
    return [
        (each, _encoded([(p, value if p == part else old) for p, old in read_fields(body)]))
        if each == number and isinstance(body, bytes)
        else (each, body)
        for each, body in fields
    ]


def _encoded(fields: Fields) -> bytes:
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            parts += (_varint(number << 3), _varint(value))
        else:
            parts += (_varint(number << 3 | 2), _varint(len(value)), value)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
