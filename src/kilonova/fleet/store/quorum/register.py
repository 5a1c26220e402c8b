"""What one of the three stores holds for a key: an acceptor of CASPaxos. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from kilonova.api.times import Time
from kilonova.objectstore import ObjectStoreError

KEPT_PREDECESSORS = 16
"""How many former versions a value names, for writers that ask what became of theirs."""


class Ballot(NamedTuple):
    """The number of an attempt; `proposer` makes it unique."""

    counter: int = 0
    proposer: str = ""

    def next_of_same(self) -> "Ballot":
        """The next ballot of the same proposer."""
        return Ballot(self.counter + 1, self.proposer)


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of an object."""

    version: str
    """Unique for each write: the ETag."""
    previous: tuple[str, ...] = ()
    """The versions before it, the newest first."""
    modified: Time = ""
    size: int = 0
    deleted: bool = False
    """Whether there is no object: a tombstone, since acceptors cannot forget."""

    def build_next(self, version: str, modified: Time, size: int, *, deleted: bool) -> "Value":
        """The version that replaces this one."""
        previous = (self.version, *self.previous)[:KEPT_PREDECESSORS]
        return Value(version, previous, modified, size, deleted)


NEVER_WRITTEN = Value("", deleted=True)


class AcceptorState(msgspec.Struct, frozen=True):
    """The state of an acceptor, without the content of the value."""

    promised: Ballot = Ballot()
    accepted: Ballot = Ballot()
    value: Value = NEVER_WRITTEN


@dataclass(frozen=True, slots=True)
class Acceptor:
    """An acceptor as it was read; `etag` None if the store has no object for it."""

    state: AcceptorState = field(default_factory=AcceptorState)
    body: bytes = b""
    etag: str | None = None


class InvalidReplica(ObjectStoreError):
    """An object is not one that this package wrote."""


def encode_acceptor(state: AcceptorState, body: bytes) -> bytes:
    """A line of JSON, and the content."""
    return msgspec.json.encode(state) + b"\n" + body


def decode_acceptor(where: str, content: bytes, etag: str) -> Acceptor:
    """The reverse of `encode_acceptor`; raises `InvalidReplica`."""
    line, newline, body = content.partition(b"\n")
    try:
        state = msgspec.json.decode(line, type=AcceptorState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidReplica(where, f"its first line is invalid: {error}", _FIX) from error
    if not newline or len(body) != state.value.size:
        raise InvalidReplica(where, "its content is truncated", _FIX)
    return Acceptor(state, body, etag)


_FIX = "restore it from a backup of the same store"
