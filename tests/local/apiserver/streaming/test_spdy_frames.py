"""SPDY frames: they round-trip in any pieces, and invalid ones are rejected."""

import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.streaming.byte_stream import ProtocolError
from kilonova.local.apiserver.streaming.spdy.frames import (
    Frame,
    GoAway,
    Ping,
    ResetStatus,
    SpdyDecoder,
    SpdyEncoder,
    StreamAccepted,
    StreamData,
    StreamOpened,
    StreamReset,
)
from kilonova.local.apiserver.streaming.spdy.header_dictionary import HEADER_DICTIONARY

_streams = st.integers(1, 0x7FFFFFFF)
_text = st.text(st.characters(max_codepoint=127), max_size=40)
_headers = st.dictionaries(_text.map(str.lower), _text, max_size=6)
_frames = st.one_of(
    st.builds(StreamOpened, _streams, _headers, st.booleans()),
    st.builds(StreamAccepted, _streams),
    st.builds(StreamData, _streams, st.binary(min_size=1, max_size=300), st.booleans()),
    st.builds(StreamReset, _streams),
    st.builds(Ping, st.integers(0, 0xFFFFFFFF)),
    st.just(GoAway()),
)


def _bytes(encoder: SpdyEncoder, frame: Frame) -> bytes:
    match frame:
        case StreamOpened(stream, headers, fin):
            return encoder.encode_open(stream, headers, fin=fin)
        case StreamAccepted(stream):
            return encoder.encode_reply(stream)
        case StreamData(stream, data, fin):
            return encoder.encode_data(stream, data, fin=fin)
        case StreamReset(stream):
            return encoder.encode_reset(stream, ResetStatus.CANCEL)
        case Ping(number):
            return encoder.encode_ping(number)
        case GoAway():
            return encoder.encode_go_away(1)


def _joined(frames: list[Frame]) -> list[Frame]:
    """Pieces of data, joined."""
    out: list[Frame] = []
    for frame in frames:
        last = out[-1] if out else None
        match last, frame:
            case StreamData(a, before, False), StreamData(b, data, fin) if a == b:
                out[-1] = StreamData(b, before + data, fin)
                continue
            case _:
                pass
        out.append(frame)
    return out


def test_header_dictionary_matches_the_specification() -> None:
    assert (len(HEADER_DICTIONARY), zlib.adler32(HEADER_DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.lists(_frames, max_size=12), st.lists(st.integers(0, 4000), max_size=12))
def test_frames_decode_in_any_pieces(frames: list[Frame], cuts: list[int]) -> None:
    encoder, decoder = SpdyEncoder(), SpdyDecoder()
    text = b"".join(_bytes(encoder, frame) for frame in frames)
    positions = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    read = [frame for a, b in pairwise(positions) for frame in decoder.feed(text[a:b])]
    assert _joined(read) == _joined(frames)


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_any_bytes_are_decoded_or_rejected(pieces: list[bytes]) -> None:
    decoder = SpdyDecoder()
    with_control = [b"\x80\x03\x00\x01", *pieces]
    for start in (pieces, with_control):
        try:
            for piece in start:
                for frame in decoder.feed(piece):
                    assert isinstance(frame, Frame)
        except ProtocolError:
            decoder = SpdyDecoder()


@given(st.lists(_frames, min_size=1, max_size=4), st.integers(0), st.binary(min_size=1, max_size=9))
def test_corrupted_frames_are_decoded_or_rejected(
    frames: list[Frame], position: int, noise: bytes
) -> None:
    encoder, decoder = SpdyEncoder(), SpdyDecoder()
    text = bytearray(b"".join(_bytes(encoder, frame) for frame in frames))
    at = position % len(text)
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
def test_invalid_frame_is_rejected(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(SpdyDecoder().feed(text))


def test_decompression_bomb_in_headers_is_rejected() -> None:
    encoder = SpdyEncoder()
    bomb = encoder.encode_open(1, {"a": "x" * 10_000_000})
    assert len(bomb) < 64 << 10
    with pytest.raises(ProtocolError, match="headers of more than"):
        list(SpdyDecoder().feed(bomb))
