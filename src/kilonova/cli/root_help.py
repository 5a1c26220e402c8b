"""`kilonova --help` from a file: importing Typer takes five times as long as starting Python.

`root_help.txt` is what Typer prints at its usual width. After a change of a command's summary, run
`COLUMNS=80 kilonova --help > src/kilonova/cli/root_help.txt`; a test compares them.
"""

import os
import sys

_WIDTH = 80
"""Typer's width on this or any wider terminal."""


def print_root_help() -> bool:
    """Print the help text if that is all that is asked for; False if Typer has to."""
    if sys.argv[1:] not in (["--help"], ["-h"]) or not _has_usual_width():
        return False
    # Completion is Typer's, and further components may have commands.
    if "_KILONOVA_COMPLETE" in os.environ or os.environ.get("KILONOVA_COMPONENTS"):
        return False
    with open(os.path.join(os.path.dirname(__file__), "root_help.txt"), encoding="ascii") as file:
        text = file.read()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing may be left to flush at the exit of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    return True


def _has_usual_width() -> bool:
    if "COLUMNS" in os.environ:
        return False
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns >= _WIDTH
    except OSError:
        return True  # not a terminal
