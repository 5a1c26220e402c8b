"""The wire format of protobuf: numbers of variable length, and fields to step over.

Positions are offsets into the whole body, which is never copied. A read past the body's end
shows as IndexError, which `decode` takes for a truncated body; a read past the end of a
message shows when its reader stops elsewhere than at that end.
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


class Malformed(ValueError):
    """The bytes are no protobuf message, or not of the type they claim."""


def varint(body: bytes, pos: int) -> tuple[int, int]:
    """An unsigned 64-bit number, and the position behind it."""
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
    raise Malformed("proto: integer overflow")


def signed(value: int, bits: int) -> int:
    """What Go makes of a number that was read unsigned: cut to size, then two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def skip(body: bytes, pos: int, end: int, tag: int) -> int:
    """The position behind a field that nobody knows; `pos` is behind its tag."""
    open_groups = 0
    while True:
        if tag >> 3 == 0:
            raise Malformed(f"proto: illegal tag 0 (wire type {tag & 7})")
        wire = tag & 7
        if wire == VARINT:
            pos = varint(body, pos)[1]
        elif wire == BYTES:
            size, pos = varint(body, pos)
            pos += size
        elif wire == FIXED64:
            pos += 8
        elif wire == FIXED32:
            pos += 4
        elif wire == GROUP:
            open_groups += 1
        elif wire == END_GROUP and open_groups:
            open_groups -= 1
        else:
            raise Malformed(f"proto: illegal wireType {wire}")
        if pos > end:
            raise Malformed("unexpected EOF")
        if not open_groups:
            return pos
        tag, pos = varint(body, pos)


def fields(body: bytes, pos: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The numbers and bytes of a small message, as (tag, start, stop), or (tag, value, 0).

    Fields of other wire types are stepped over.
    """
    while pos < end:
        tag, pos = varint(body, pos)
        wire = tag & 7
        if wire == BYTES and tag >> 3:
            size, start = varint(body, pos)
            pos = start + size
            if pos > end:
                raise Malformed("unexpected EOF")
            yield tag, start, pos
        elif wire == VARINT and tag >> 3:
            value, pos = varint(body, pos)
            yield tag, value, 0
        else:
            pos = skip(body, pos, end, tag)
    if pos != end:
        raise Malformed("unexpected EOF")
