"""A server process of a test: its log, its readiness, its sure end."""

import atexit
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.harness import lifeline


class ServerDied(RuntimeError):
    """A server ended, or did not become ready; carries the end of what it wrote."""

    def __init__(self, name: str, what: str, log: Path) -> None:
        super().__init__(f"{name} {what}; the end of its log:\n{_tail(log)}")


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
            self._process = lifeline.start(command, output=output, env=env)
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], timeout: float = 60) -> None:
        """Poll until ready; a server that dies or dawdles is an error that shows its log."""
        deadline = time.monotonic() + timeout
        while not is_ready():
            if not self.is_running():
                raise ServerDied(self.name, f"ended with {self._process.returncode}", self.log)
            if time.monotonic() > deadline:
                raise ServerDied(self.name, f"is not ready after {timeout:.0f} s", self.log)
            time.sleep(0.02)

    def wait(self, timeout: float = 30) -> int:
        """The exit status, once it ends by itself."""
        return self._process.wait(timeout)

    def stop(self, grace: float = 5) -> None:
        """Ask it to end; kill it when it does not."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        atexit.unregister(self.kill)

    def kill(self) -> None:
        """End it as `kill -9` does, with whatever it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        atexit.unregister(self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running():
            os.killpg(self._process.pid, number)


def free_port() -> int:
    """A loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
