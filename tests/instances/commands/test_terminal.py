"""What the terminal of a command can show."""

from io import BytesIO, TextIOWrapper
from typing import Literal

import pytest

from kilonova.instances.commands.placement.terminal import Terminal, find_terminal


@pytest.mark.parametrize(
    ("encoding", "color", "width", "terminal"),
    [
        ("utf-8", "auto", 100, Terminal(100, coloured=False, ascii_only=False)),
        ("UTF8", "always", 100, Terminal(100, coloured=True, ascii_only=False)),
        ("latin-1", "never", 100, Terminal(100, coloured=False, ascii_only=True)),
        ("ascii", "auto", 7, Terminal(40, coloured=False, ascii_only=True)),
        ("utf-8", "auto", 0, Terminal(72, coloured=False, ascii_only=False)),
    ],
)
def test_terminal(
    encoding: str,
    color: Literal["auto", "always", "never"],
    width: int,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "72")
    for variable in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(variable, raising=False)
    assert find_terminal(TextIOWrapper(BytesIO(), encoding), width, color) == terminal
