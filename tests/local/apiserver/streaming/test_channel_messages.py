"""Decoding of WebSocket channel messages, whole and in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.streaming.remote_command import (
    ClientInput,
    StdinClosed,
    StdinData,
    TerminalResize,
    decode_terminal_size,
    exit_status,
)
from kilonova.local.apiserver.streaming.websocket.connection import MessagePiece
from kilonova.local.apiserver.streaming.websocket.remote_command import ChannelDecoder


def _decode(*pieces: MessagePiece, closes: bool = True) -> list[ClientInput]:
    reader = ChannelDecoder(supports_close=closes)
    return [event for piece in pieces if (event := reader.decode(piece)) is not None]


@pytest.mark.parametrize(
    ("message", "decoded"),
    [
        (b"\0typed", [StdinData(b"typed")]),
        (b"\0", []),
        (b"", []),
        (b'\x04{"Width":80,"Height":24}\n', [TerminalResize(80, 24)]),
        (b'\x04{"Width":0,"Height":24}', []),
        (b'\x04{"Width":80,"Height":-1}', []),
        (b'\x04{"Width":"80"}', []),
        (b"\x04not json", []),
        (b"\xff\0", [StdinClosed()]),
        (b"\xff\1", []),
        (b"\xff", []),
        (b"\1from a client", []),
        (b"\x63of no channel", []),
    ],
)
def test_channel_message_is_decoded(message: bytes, decoded: list[ClientInput]) -> None:
    assert _decode(MessagePiece(message, True)) == decoded


def test_input_is_passed_on_before_its_message_ends() -> None:
    reader = ChannelDecoder(supports_close=True)
    assert reader.decode(MessagePiece(b"", False)) is None
    assert reader.decode(MessagePiece(b"\0ab", False)) == StdinData(b"ab")
    assert reader.decode(MessagePiece(b"\xff\0", False)) == StdinData(b"\xff\0")
    assert reader.decode(MessagePiece(b"", True)) is None
    assert reader.decode(MessagePiece(b"\xff\0", True)) == StdinClosed()


def test_stdin_cannot_be_closed_before_version_5() -> None:
    assert _decode(MessagePiece(b"\xff\0", True), closes=False) == []


@given(st.lists(st.builds(MessagePiece, st.binary(max_size=50), st.booleans())))
def test_any_pieces_are_decoded(pieces: list[MessagePiece]) -> None:
    events = _decode(*pieces)
    typed = sum(len(event.data) for event in events if isinstance(event, StdinData))
    assert typed <= sum(len(piece.data) for piece in pieces)


@given(st.binary(max_size=60))
def test_any_terminal_size_is_decoded_or_ignored(text: bytes) -> None:
    size = decode_terminal_size(text)
    assert size is None or (0 < size.columns <= 65535 and 0 < size.rows <= 65535)


def test_exit_code_is_a_status_cause() -> None:
    assert exit_status(0) == {"metadata": {}, "status": "Success"}
    ended = exit_status(3)
    assert (ended["status"], ended["reason"]) == ("Failure", "NonZeroExitCode")
    assert ended["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
