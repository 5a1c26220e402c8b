"""SPDY frames: what was written is read, in any pieces; what is no frame is refused."""

import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.streaming.spdy import (
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    Opened,
    Ping,
    Replied,
    Reset,
    ResetStatus,
)
from kilonova.local.streaming.spdywords import DICTIONARY
from kilonova.local.streaming.wire import ProtocolError

_streams = st.integers(1, 0x7FFFFFFF)
_text = st.text(st.characters(max_codepoint=127), max_size=40)
_headers = st.dictionaries(_text.map(str.lower), _text, max_size=6)
_frames = st.one_of(
    st.builds(Opened, _streams, _headers, st.booleans()),
    st.builds(Replied, _streams),
    st.builds(Data, _streams, st.binary(min_size=1, max_size=300), st.booleans()),
    st.builds(Reset, _streams),
    st.builds(Ping, st.integers(0, 0xFFFFFFFF)),
    st.just(GoAway()),
)


def _bytes(encoder: Encoder, frame: Frame) -> bytes:
    match frame:
        case Opened(stream, headers, fin):
            return encoder.opened(stream, headers, fin=fin)
        case Replied(stream):
            return encoder.replied(stream)
        case Data(stream, data, fin):
            return encoder.data(stream, data, fin=fin)
        case Reset(stream):
            return encoder.reset(stream, ResetStatus.CANCEL)
        case Ping(number):
            return encoder.ping(number)
        case GoAway():
            return encoder.go_away(1)


def _joined(frames: list[Frame]) -> list[Frame]:
    """Pieces of data put together again."""
    out: list[Frame] = []
    for frame in frames:
        last = out[-1] if out else None
        match last, frame:
            case Data(a, before, False), Data(b, data, fin) if a == b:
                out[-1] = Data(b, before + data, fin)
                continue
            case _:
                pass
        out.append(frame)
    return out


def test_the_dictionary_is_the_one_that_all_implementations_have() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.lists(_frames, max_size=12), st.lists(st.integers(0, 4000), max_size=12))
def test_frames_survive_any_cut(frames: list[Frame], cuts: list[int]) -> None:
    encoder, decoder = Encoder(), Decoder()
    text = b"".join(_bytes(encoder, frame) for frame in frames)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    read = [frame for a, b in pairwise(places) for frame in decoder.feed(text[a:b])]
    assert _joined(read) == _joined(frames)


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    decoder = Decoder()
    with_control = [b"\x80\x03\x00\x01", *pieces]
    for start in (pieces, with_control):
        try:
            for piece in start:
                for frame in decoder.feed(piece):
                    assert isinstance(frame, Frame)
        except ProtocolError:
            decoder = Decoder()


@given(st.lists(_frames, min_size=1, max_size=4), st.integers(0), st.binary(min_size=1, max_size=9))
def test_damaged_frames_are_read_or_refused(frames: list[Frame], place: int, noise: bytes) -> None:
    encoder, decoder = Encoder(), Decoder()
    text = bytearray(b"".join(_bytes(encoder, frame) for frame in frames))
    at = place % len(text)
    text[at : at + len(noise)] = noise
    try:
        read = list(decoder.feed(bytes(text)))
    except ProtocolError:
        return
    assert all(isinstance(frame, Frame) for frame in read)


@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x80\x03\x00\x01\x00\xff\xff\xff",
        b"\x80\x03\x00\x63\x00\x00\x00\x00",
        b"\x80\x03\x00\x03\x00\x00\x00\x02\x00\x00",
        b"\x80\x03\x00\x01\x00\x00\x00\x0c" + bytes(3) + b"\x01" + bytes(6) + b"no",
    ],
    ids=["version 2", "too long", "unknown type", "too short", "not compressed"],
)
def test_what_is_no_frame_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(text))


def test_headers_that_swell_are_refused() -> None:
    encoder = Encoder()
    bomb = encoder.opened(1, {"a": "x" * 10_000_000})
    assert len(bomb) < 64 << 10
    with pytest.raises(ProtocolError, match="headers of more than"):
        list(Decoder().feed(bomb))
