"""Starts the embedded API repeatedly, without Python's startup time.

A process that has imported everything (`tests.harness.preloading`) forks a child per start, and the
child runs `kilonova up`. Each line on standard input is a JSON list of arguments;
the response is the child's process id. Children end with this process, and this one with its
parent.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harness.preloading import preload

_PR_SET_PDEATHSIG = 1
_ROOT = Path(__file__).parents[2]


class Zygote:
    """Starts servers by fork; `kill` is kill -9."""

    def __init__(self, log: Path) -> None:
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "src")])
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.zygote"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path},
                text=True,
            )

    def start(self, *arguments: str) -> int:
        """Start a server with these arguments; returns its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def kill(self, pid: int) -> None:
        """Kill it, and return when it has exited."""
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.001)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def _serve_forked(arguments: list[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # its output goes to the log
    _run_server(arguments)


def _run_server(arguments: list[str]) -> None:
    from kilonova.cli import main

    sys.argv = ["kilonova", *arguments]
    main()


def _accept_commands() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of killed children
    preload()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _serve_forked(json.loads(line))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    _accept_commands()
