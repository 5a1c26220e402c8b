"""The protobuf wire format: varints, and skipping of fields.

Positions are offsets into the whole body, which is never copied. A read past the end of the body
raises IndexError, which `decode_object` reports as a truncated body; a read past the end of a
message is detected when its reader stops beyond that end.
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


class MalformedMessage(ValueError):
    """The bytes are not a protobuf message, or not of the declared type."""


def read_varint(body: bytes, pos: int) -> tuple[int, int]:
    """An unsigned 64-bit number, and the position after it."""
    byte = body[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for shift in range(7, 70, 7):
        pos += 1
        byte = body[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos + 1
    raise MalformedMessage("proto: integer overflow")


def to_signed(value: int, bits: int) -> int:
    """Convert an unsigned number as Go does: truncated to size, then two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def skip_field(body: bytes, pos: int, end: int, tag: int) -> int:
    """The position after an unknown field; `pos` is after its tag."""
    open_groups = 0
    while True:
        if tag >> 3 == 0:
            raise MalformedMessage(f"proto: illegal tag 0 (wire type {tag & 7})")
        wire_type = tag & 7
        if wire_type == VARINT:
            pos = read_varint(body, pos)[1]
        elif wire_type == BYTES:
            size, pos = read_varint(body, pos)
            pos += size
        elif wire_type == FIXED64:
            pos += 8
        elif wire_type == FIXED32:
            pos += 4
        elif wire_type == GROUP:
            open_groups += 1
        elif wire_type == END_GROUP and open_groups:
            open_groups -= 1
        else:
            raise MalformedMessage(f"proto: illegal wireType {wire_type}")
        if pos > end:
            raise MalformedMessage("unexpected EOF")
        if not open_groups:
            return pos
        tag, pos = read_varint(body, pos)


def iterate_fields(body: bytes, pos: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The numbers and bytes of a small message, as (tag, start, stop) or (tag, value, 0).

    Fields of other wire types are skipped.
    """
    while pos < end:
        tag, pos = read_varint(body, pos)
        wire_type = tag & 7
        if wire_type == BYTES and tag >> 3:
            size, start = read_varint(body, pos)
            pos = start + size
            if pos > end:
                raise MalformedMessage("unexpected EOF")
            yield tag, start, pos
        elif wire_type == VARINT and tag >> 3:
            value, pos = read_varint(body, pos)
            yield tag, value, 0
        else:
            pos = skip_field(body, pos, end, tag)
    if pos != end:
        raise MalformedMessage("unexpected EOF")
