"""The generated table of messages: which fields they have, and how JSON shows them."""

import gzip
from functools import cache
from importlib import resources

import msgspec


class Field(msgspec.Struct, array_like=True, frozen=True):
    """A row of the table.

    `shape` is `keep` or `omit` (a value; what becomes of its zero), `pointer`, `list`, `map`
    (from strings), or `inline` (its fields belong to the message around it). `type` is the name of
    a scalar, of one of `VALUES`, or of a message.
    """

    number: int
    name: str
    shape: str
    type: str


class Table(msgspec.Struct, frozen=True):
    """The messages, and which of them is what kind of which apiVersion."""

    kinds: dict[str, dict[str, str]]
    messages: dict[str, list[Field]]

    def message_of(self, api_version: str, kind: str) -> str | None:
        """The name of a kind's message. Some kinds, under `*`, are of every apiVersion."""
        return self.kinds.get(api_version, {}).get(kind) or self.kinds["*"].get(kind)


@cache
def table() -> Table:
    """The generated table, read once."""
    packed = resources.files("kilonova.local").joinpath("data/protobuf.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Table)
