"""The generated table of messages: their fields, and the JSON form of these."""

import gzip
from functools import cache
from importlib import resources

import msgspec


class MessageField(msgspec.Struct, array_like=True, frozen=True):
    """A row of the table.

    `shape` is `keep` or `omit` (a value; whether its zero is kept), `pointer`, `list`, `map` (from
    strings), or `inline` (its fields belong to the enclosing message). `type` is the name of a
    scalar, of one of `VALUE_READERS`, or of a message.
    """

    number: int
    name: str
    shape: str
    type: str


class MessageTable(msgspec.Struct, frozen=True):
    """The messages, and the message of each apiVersion and kind."""

    kinds: dict[str, dict[str, str]]
    messages: dict[str, list[MessageField]]

    def find_message(self, api_version: str, kind: str) -> str | None:
        """The name of a kind's message. Some kinds, under `*`, exist in every apiVersion."""
        return self.kinds.get(api_version, {}).get(kind) or self.kinds["*"].get(kind)


@cache
def load_table() -> MessageTable:
    """The generated table, loaded once."""
    packed = resources.files("kilonova.local").joinpath("data/protobuf.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=MessageTable)
