"""The command line in a new process that has its modules already.

To load them takes most of the time of a short command, and the tests run hundreds. So a server
loads them once, and forks for each command; what a command loads when it is really started is
tested elsewhere (`test_help`, `test_start_loads_little`).
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kilonova.cli

_PATIENCE = 60.0
_PROGRAM = str(Path(kilonova.cli.__file__).with_name("__main__.py"))
_LOADED = [
    "kilonova.cli.commands",
    "kilonova.cli.consolewhy",
    "kilonova.cli.doctorgather",
    "kilonova.cli.down",
    "kilonova.cli.kindsoflists",
    "kilonova.cli.picturing",
    "kilonova.cli.planning",
    "kilonova.cli.status",
    "kilonova.cli.watching",
]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(_LOADED)


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


def run_forked(words: Sequence[str], environment: dict[str, str], folder: Path) -> Done:
    """Run `kilonova WORDS` to its end."""
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said, "out"), Path(said, "err")
        process = _forks.Process(target=_play, args=(words, environment, folder, out, err))
        process.start()
        process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"kilonova {' '.join(words)} has not ended within {_PATIENCE:.0f} s")
        return Done(process.exitcode, out.read_text(), err.read_text())


def _play(
    words: Sequence[str], environment: dict[str, str], folder: Path, out: Path, err: Path
) -> None:
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [_PROGRAM, *words]
    kilonova.cli.main()
