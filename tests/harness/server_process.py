"""A server process of a test: log, readiness and reliable termination."""

import atexit
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path

from tests.harness import child_process

_PORTS = range(20_000, 30_000)
"""Below the ports of Services (30000) and those that the kernel gives to clients (32768)."""
_WORKERS = 16
"""Workers have ports of their own: nobody takes one between its choice and the server's start."""


class ServerExited(RuntimeError):
    """A server exited or did not become ready; contains the end of its log."""

    def __init__(self, name: str, what: str, log: Path) -> None:
        super().__init__(f"{name} {what}; the end of its log:\n{_read_tail(log)}")


class ServerProcess:
    """A running server. It ends with `stop`, with this process, or with this thread."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = child_process.start_child(command, output=output, env=env)
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], timeout: float = 60) -> None:
        """Poll until ready; a server that exits or is too slow is an error with its log."""
        deadline = time.monotonic() + timeout
        while not is_ready():
            if not self.is_running():
                raise ServerExited(self.name, f"ended with {self._process.returncode}", self.log)
            if time.monotonic() > deadline:
                raise ServerExited(self.name, f"is not ready after {timeout:.0f} s", self.log)
            time.sleep(0.02)

    def wait(self, timeout: float = 30) -> int:
        """The exit status, once it exits by itself."""
        return self._process.wait(timeout)

    def stop(self, grace: float = 5) -> None:
        """Terminate it; kill it after the grace period."""
        self.send_signal(signal.SIGTERM)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        atexit.unregister(self.kill)

    def kill(self) -> None:
        """Kill it and its children with SIGKILL."""
        self.send_signal(signal.SIGKILL)
        self._process.wait()
        atexit.unregister(self.kill)

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_running():
            os.killpg(self._process.pid, number)


def find_free_port() -> int:
    """A loopback port that is free at this moment, and that no client is given by the kernel."""
    for port in _iterate_ports():
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable: ports are tried again and again")


@cache
def _iterate_ports() -> Iterator[int]:
    """This worker's ports, from a random one on, in turn."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", f"gw{os.getpid()}")
    own = _PORTS[int(worker.removeprefix("gw")) % _WORKERS :: _WORKERS]
    start = random.randrange(len(own))
    return cycle([*own[start:], *own[:start]])


def _read_tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
