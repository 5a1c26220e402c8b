"""Run a command that ends when its parent ends, whatever ended the parent.

`python lifeline.py PARENT COMMAND …` asks the kernel to kill this process when its parent
dies, then becomes the command: `kill -9` of a test run leaves no server behind. The wish
survives exec, and belongs to the parent's thread that started it: start commands from a
thread that lives as long as they should. Elsewhere than on Linux it only runs the command.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def start(
    command: Sequence[str | Path],
    *,
    output: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own, tied to this thread's life."""
    launcher = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
    return subprocess.Popen(
        [*launcher, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


def _become(parent: int, command: Sequence[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was asked
            sys.exit(1)
    os.execv(command[0], list(command))


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
