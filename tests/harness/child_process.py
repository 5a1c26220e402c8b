"""Runs a command that is killed when its parent ends, for whatever reason.

`python child_process.py PARENT COMMAND …` asks the kernel to kill this process when its parent dies
(PR_SET_PDEATHSIG), then executes the command: `kill -9` of a test run leaves no server behind. The
setting survives exec, and is bound to the parent's thread: start commands from a thread that lives
as long as they should. On other systems than Linux it only runs the command.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def start_child(
    command: Sequence[str | Path],
    *,
    output: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in its own process group, bound to this thread's lifetime."""
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


def _exec_with_parent_death_signal(parent: int, command: Sequence[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:  # the parent died before the request
            sys.exit(1)
    os.execv(command[0], list(command))


if __name__ == "__main__":
    _exec_with_parent_death_signal(int(sys.argv[1]), sys.argv[2:])
