"""Channels of WebSocket messages: what the pieces of messages mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.streaming.channels import ChannelReader
from kilonova.local.streaming.console import Input, InputEnded, Resized, Typed, outcome, resized
from kilonova.local.streaming.websocket import Piece


def _meant(*pieces: Piece, closes: bool = True) -> list[Input]:
    reader = ChannelReader(closes=closes)
    return [event for piece in pieces if (event := reader.read(piece)) is not None]


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        (b"\0typed", [Typed(b"typed")]),
        (b"\0", []),
        (b"", []),
        (b'\x04{"Width":80,"Height":24}\n', [Resized(80, 24)]),
        (b'\x04{"Width":0,"Height":24}', []),
        (b'\x04{"Width":80,"Height":-1}', []),
        (b'\x04{"Width":"80"}', []),
        (b"\x04not json", []),
        (b"\xff\0", [InputEnded()]),
        (b"\xff\1", []),
        (b"\xff", []),
        (b"\1from a client", []),
        (b"\x63of no channel", []),
    ],
)
def test_a_message_means(message: bytes, meant: list[Input]) -> None:
    assert _meant(Piece(message, True)) == meant


def test_input_does_not_wait_for_the_end_of_its_message() -> None:
    reader = ChannelReader(closes=True)
    assert reader.read(Piece(b"", False)) is None
    assert reader.read(Piece(b"\0ab", False)) == Typed(b"ab")
    assert reader.read(Piece(b"\xff\0", False)) == Typed(b"\xff\0")
    assert reader.read(Piece(b"", True)) is None
    assert reader.read(Piece(b"\xff\0", True)) == InputEnded()


def test_before_version_5_there_is_no_end_of_input() -> None:
    assert _meant(Piece(b"\xff\0", True), closes=False) == []


@given(st.lists(st.builds(Piece, st.binary(max_size=50), st.booleans())))
def test_any_pieces_are_understood(pieces: list[Piece]) -> None:
    events = _meant(*pieces)
    typed = sum(len(event.data) for event in events if isinstance(event, Typed))
    assert typed <= sum(len(piece.data) for piece in pieces)


@given(st.binary(max_size=60))
def test_any_size_is_a_size_or_none(text: bytes) -> None:
    size = resized(text)
    assert size is None or (0 < size.columns <= 65535 and 0 < size.rows <= 65535)


def test_an_exit_code_is_a_cause() -> None:
    assert outcome(0) == {"metadata": {}, "status": "Success"}
    ended = outcome(3)
    assert (ended["status"], ended["reason"]) == ("Failure", "NonZeroExitCode")
    assert ended["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
