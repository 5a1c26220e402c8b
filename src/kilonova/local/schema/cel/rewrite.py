"""Changing a compiled expression, where the runtime cannot be told by its source.

The runtime takes neither times nor optionals inside the values it is given. So a time stays
the text that it is in JSON, and is read where the expression uses it; and an optional
`oldSelf` is looked up in a map that has it or not. Nor does it look for fields in null, which
to Kubernetes just has none: where that is done, another variable is read, which is never null.
"""

from collections.abc import Iterable, Mapping

from kilonova.local.schema.cel.syntax import Fields, read_fields

_EXPRESSIONS = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Fields of a kind of node (by its own field number) that are nodes again."""

_STRUCT, _STRUCT_ENTRIES, _ENTRY_NODES = 8, 2, (3, 4)


class Rewrite:
    """Replacements by node id: `calls` puts a function around a node, `lookups` replaces it
    by the optional entry `value` of a variable, `names` by another variable."""

    def __init__(
        self,
        calls: dict[int, str],
        lookups: Iterable[int],
        variable: str,
        names: Mapping[int, str],
    ) -> None:
        self._calls = calls
        self._names = names
        self._lookups = frozenset(lookups)
        self._variable = variable
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
        if id in self._lookups:
            return self._call("_?._", self._variable_node(self._variable), self._text_node("value"))
        if id in self._names:
            return self._variable_node(self._names[id])
        whole = _encoded([(number, self._body(number, value)) for number, value in fields])
        function = self._calls.get(id)
        return whole if function is None else self._call(function, whole)

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

    def _variable_node(self, name: str) -> bytes:
        return self._made(4, _encoded([(1, name.encode())]))

    def _text_node(self, text: str) -> bytes:
        return self._made(3, _encoded([(6, text.encode())]))

    def _made(self, number: int, body: bytes) -> bytes:
        self._next_id += 1
        return _encoded([(2, self._next_id), (number, body)])


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
