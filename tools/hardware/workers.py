"""PyTorch processes beside what a program does to their GPU."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path


class Worker:
    """A process of `torch_worker`."""

    def __init__(self, process: "subprocess.Popen[str]", seen: Mapping[str, object]) -> None:
        self._process = process
        self.seen = seen
        """What it sees of its device: `name`, `sms`, `total_mib`, `free_mib`, `refused`."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def next_count(self) -> int:
        """The number of its products so far, at the end of the current second; -1 if it ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        return int(line) if line.isdecimal() else -1

    def wait_end(self, seconds: float) -> int | None:
        """Its exit code; None if it still runs."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


class WorkerFailed(Exception):
    """A worker did not start."""


class Workers:
    """Starts workers, and ends them."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, environment: Mapping[str, str], mebibytes: int = 0) -> Worker:
        """Start a worker, and wait until it has looked at its device."""
        program = Path(__file__).with_name("torch_worker.py")
        # PyTorch has packages of its own.
        inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            [sys.executable, str(program), str(mebibytes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, **environment},
        )
        self._processes.append(process)
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            if line.startswith("{"):
                return Worker(process, json.loads(line))
            lines.append(line)
        raise WorkerFailed("".join(lines)[-500:])

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()


@contextmanager
def open_workers() -> Generator[Workers]:
    """Workers that end at the end."""
    workers = Workers()
    try:
        yield workers
    finally:
        workers.stop()
