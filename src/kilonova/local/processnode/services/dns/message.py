"""Queries that are answered, and answers to them, in dnspython's types. Pure."""

from dataclasses import dataclass

from dns.flags import Flag
from dns.message import CopyMode, Message, ShortHeader, from_wire, make_response
from dns.opcode import Opcode
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from dns.rrset import RRset

_MIN_UDP_SIZE = 512
_UDP_SIZE = 4096
"""The maximum size of a UDP query, announced to clients."""


@dataclass(frozen=True, slots=True)
class DnsQuery:
    """A message with one question. `name` is in lower case."""

    message: Message
    name: str
    type: RdataType

    @property
    def size(self) -> int:
        """The maximum size of a UDP answer, by EDNS if the client has it."""
        return max(self.message.payload, _MIN_UDP_SIZE)


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The answer to a question. Each set has one record, so that an answer is truncated between
    records, not sets: some clients use what they get instead of asking again over TCP.
    """

    code: Rcode = Rcode.NOERROR
    records: tuple[RRset, ...] = ()
    authority: tuple[RRset, ...] = ()
    additional: tuple[RRset, ...] = ()


class MalformedQuery(Exception):
    """A message that is not a valid query; `reply` is what to send, if anything."""

    def __init__(self, reply: bytes | None) -> None:
        super().__init__("not a DNS query")
        self.reply = reply


def parse_query(wire: bytes) -> DnsQuery:
    """The question of a message; `MalformedQuery` if it is not one."""
    try:
        # Errors are collected, because a reply needs the header. Signatures are not verified.
        message = from_wire(wire, keyring=False, ignore_trailing=True, continue_on_error=True)
    except ShortHeader:
        raise MalformedQuery(None) from None
    if message.flags & Flag.QR:
        raise MalformedQuery(None)
    if message.opcode() != Opcode.QUERY:
        raise MalformedQuery(_encode_header_only(message, Rcode.NOTIMP))
    if message.errors or len(message.question) != 1:
        raise MalformedQuery(_encode_header_only(message, Rcode.FORMERR))
    question = message.question[0]
    name = question.name.to_text(omit_final_dot=True).lower()
    return DnsQuery(message, name, question.rdtype)


def encode_answer(query: DnsQuery, answer: DnsAnswer, limit: int) -> bytes:
    """The message that answers a query, truncated with the TC bit where it would be too long."""
    reply = make_response(query.message, recursion_available=True, our_payload=_UDP_SIZE, pad=0)
    reply.flags |= Flag.AA
    reply.set_rcode(answer.code)
    reply.answer += answer.records
    reply.authority += answer.authority
    reply.additional += answer.additional
    return reply.to_wire(max_size=limit, prefer_truncation=True, want_shuffle=False)


def encode_server_failure(query: DnsQuery) -> bytes:
    """A SERVFAIL answer."""
    reply = make_response(query.message, recursion_available=True, our_payload=_UDP_SIZE, pad=0)
    reply.set_rcode(Rcode.SERVFAIL)
    return reply.to_wire()


def _encode_header_only(message: Message, code: Rcode) -> bytes:
    reply = make_response(message, recursion_available=True, pad=0, copy_mode=CopyMode.NOTHING)
    reply.set_rcode(code)
    return reply.to_wire()
