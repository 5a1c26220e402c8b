"""DNS messages (RFC 1035): the question of a query, and answers to it. Pure.

Only what a nameserver of a cluster needs: one question, answers of a few types, and the size that
a client takes (EDNS, RFC 6891).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address

_HEADER = struct.Struct("!6H")
_RECORD = struct.Struct("!HHIH")
_SMALLEST = 512
_LONGEST_NAME = 255
_OPT = 41
_INTERNET = 1
_POINTER = 0xC0
_IS_ANSWER, _OPCODE, _AUTHORITATIVE, _TRUNCATED = 0x8000, 0x7800, 0x0400, 0x0200
_RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x0100, 0x0080


class Type(IntEnum):
    """What a record tells."""

    A = 1
    CNAME = 5
    SOA = 6
    AAAA = 28
    SRV = 33
    ANY = 255


class Code(IntEnum):
    """How a question was answered."""

    OK = 0
    BAD_QUERY = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_DONE = 4


@dataclass(frozen=True, slots=True)
class Record:
    """Something that is known of a name."""

    name: str
    type: Type
    value: bytes
    ttl: int


@dataclass(frozen=True, slots=True)
class Query:
    """A question, and what its answer must repeat or respect. `name` is in lower case."""

    id: int
    flags: int
    name: str
    type: int
    raw: bytes
    """The question as it was asked, to be repeated in the same letters."""
    size: int = _SMALLEST
    """How long an answer by UDP may be."""
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to a question."""

    code: Code = Code.OK
    records: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()


class BadQuery(Exception):
    """A message that cannot be answered by content; `reply` is what to send, if anything."""

    def __init__(self, reply: bytes | None) -> None:
        super().__init__("not a DNS query")
        self.reply = reply


def read_query(message: bytes) -> Query:
    """The question of a message; `BadQuery` for all that is none."""
    if len(message) < _HEADER.size:
        raise BadQuery(None)
    id_, flags, questions, _, _, extras = _HEADER.unpack_from(message)
    if flags & _IS_ANSWER:
        raise BadQuery(None)
    if flags & _OPCODE:
        raise BadQuery(_bare(id_, flags, Code.NOT_DONE))
    try:
        if questions != 1:
            raise ValueError("not one question")
        name, end = _read_name(message, _HEADER.size)
        type_, _ = struct.unpack_from("!HH", message, end)
    except (ValueError, IndexError, struct.error):
        raise BadQuery(_bare(id_, flags, Code.BAD_QUERY)) from None
    end += 4
    query = Query(id_, flags, name, type_, message[_HEADER.size : end])
    size = _extension(message[end:]) if extras else None
    if size is None:
        return query
    return Query(id_, flags, name, type_, query.raw, max(size, _SMALLEST), extended=True)


def write_answer(query: Query, answer: Answer, limit: int) -> bytes:
    """The message that answers a query, cut short and marked so where it would be too long."""
    extension = b"\0" + _RECORD.pack(_OPT, 4096, 0, 0) if query.extended else b""
    room = limit - _HEADER.size - len(query.raw) - len(extension)
    body, counts, cut = bytearray(), [0, 0, 0], 0
    for section, records in enumerate((answer.records, answer.authority, answer.additional)):
        for record in records:
            written = _write_record(record, query)
            if len(body) + len(written) > room:
                # What is only additional may be left out without a word.
                cut = _TRUNCATED if section < 2 else cut
                break
            body += written
            counts[section] += 1
    flags = _flags(query.flags, answer.code) | _AUTHORITATIVE | cut
    counts[2] += query.extended
    return _HEADER.pack(query.id, flags, 1, *counts) + query.raw + body + extension


def failure(query: Query) -> bytes:
    """Says that the question could not be answered this time."""
    return _HEADER.pack(query.id, _flags(query.flags, Code.FAILED), 1, 0, 0, 0) + query.raw


def address_value(ip: str) -> bytes:
    """The value of an A record."""
    return IPv4Address(ip).packed


def service_value(weight: int, port: int, target: str) -> bytes:
    """The value of an SRV record."""
    return struct.pack("!3H", 0, weight, port) + write_name(target)


def authority_value(zone: str, ttl: int) -> bytes:
    """The value of an SOA record: who to ask, and how long a "no" may be remembered."""
    names = write_name(f"ns.dns.{zone}") + write_name(f"hostmaster.{zone}")
    return names + struct.pack("!5I", 1, 7200, 1800, 86400, ttl)


def write_name(name: str) -> bytes:
    labels: Sequence[str] = name.removesuffix(".").split(".") if name.strip(".") else ()
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def _write_record(record: Record, query: Query) -> bytes:
    asked = record.name == query.name
    name = struct.pack("!H", _POINTER << 8 | _HEADER.size) if asked else write_name(record.name)
    head = _RECORD.pack(record.type, _INTERNET, record.ttl, len(record.value))
    return name + head + record.value


def _read_name(message: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    start = at
    while length := message[at]:
        if length >= _POINTER or at + 1 + length > len(message) or at - start > _LONGEST_NAME:
            raise ValueError("not a name")
        labels.append(message[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    return ".".join(labels), at + 1


def _extension(rest: bytes) -> int | None:
    """The size that the client takes, where it says so."""
    if len(rest) < 1 + _RECORD.size or rest[0] != 0:
        return None
    type_, size, _, _ = _RECORD.unpack_from(rest, 1)
    return size if type_ == _OPT else None


def _bare(id_: int, flags: int, code: Code) -> bytes:
    return _HEADER.pack(id_, _flags(flags, code), 0, 0, 0, 0)


def _flags(asked: int, code: Code) -> int:
    kept = asked & (_OPCODE | _RECURSION_DESIRED)
    return _IS_ANSWER | _RECURSION_AVAILABLE | kept | code
