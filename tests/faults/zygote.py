"""Starts the embedded API again and again, without paying for Python's start each time.

A process that has imported everything, and run a cluster once so that what is computed once is,
forks a child per start, and the child runs `kilonova up`. Each line on standard input is a list of
arguments as JSON; the answer is the child's process id. Children end with this process, and this
one with its parent.
"""

import asyncio
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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
        """Start a server with these arguments; its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def kill(self, pid: int) -> None:
        """Kill it, and return when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.001)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def _preload() -> None:
    for package in ("kilonova.local", "kilonova.cli"):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    importlib.import_module("uvloop")
    importlib.import_module("uvicorn.lifespan.off")


def _warm_up() -> None:
    """Fill what processes fill once: tables made on first use, modules imported at the last."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        _run(["up", "--help"])
    asyncio.run(_live_once())
    assert threading.active_count() == 1, "a fork keeps the locks of threads, and not the threads"
    gc.collect()
    gc.freeze()  # so that children neither visit nor copy it


async def _live_once() -> None:
    from kilonova.local.cluster import Cluster, Settings

    cluster = Cluster(Settings(port=None, data=None))
    await cluster.start()
    await cluster.wait_settled()
    await cluster.stop()


def _serve(arguments: list[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what it prints belongs into the log
    _run(arguments)


def _run(arguments: list[str]) -> None:
    from kilonova.cli import main

    sys.argv = ["kilonova", *arguments]
    main()


def _listen() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed children leave no trace
    _preload()
    _warm_up()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _serve(json.loads(line))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    _listen()
