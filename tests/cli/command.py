"""Runs the `kilonova` command in a process of its own, with a home directory of its own."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilonova.local.processnode.cri.client import ShimRuntime
from tests.cli.forked import CompletedCommand, run_forked

_SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Kilonova:
    """Runs `kilonova`; background clusters that it started are killed after the test."""

    home: Path
    _data_directories: set[Path] = field(default_factory=set[Path])

    def __call__(
        self, *words: str | Path, variables: Mapping[str, str] | None = None
    ) -> CompletedCommand:
        """Run a command to its end, with more environment variables."""
        environment = self.environment() | dict(variables or {})
        return run_forked([*map(str, words)], environment, self.home)

    def detach(self, data: Path, *words: str | Path) -> CompletedCommand:
        """`up --detach --wait` on a free port, by default without process node and console."""
        self.stop_after_test(data)
        mode = ("--detach", "--wait", "--no-process-node", "--no-console", "--port", "0")
        return self("up", *mode, "--data", data, *words)

    def status(self, data: Path) -> dict[str, Any]:
        """The output of `status -o json`."""
        return json.loads(self("status", "-o", "json", "--data", data).out)

    def command(self, *words: str | Path) -> list[str]:
        """The command line, for tests that start the process themselves."""
        return [sys.executable, "-P", "-m", "kilonova.cli", *map(str, words)]

    def environment(self) -> dict[str, str]:
        """Only the PATH comes from the user's environment."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(_SOURCE),
            "TERM": "xterm",
        }

    def stop_after_test(self, data: Path) -> None:
        """Kill a cluster that runs in `data` after the test."""
        self._data_directories.add(data)

    def stop_all(self) -> None:
        """Kill clusters that still run, and their pods."""
        for data in self._data_directories:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pid = json.loads((data / "running.json").read_bytes())["pid"]
                os.kill(pid, signal.SIGKILL)
            # Processes of pods outlive the cluster by design.
            asyncio.run(ShimRuntime(data / "shim").shutdown())


def complete_words(
    kilonova: Kilonova,
    arguments: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
    tries: int = 5,
) -> list[str]:
    """Completions of the last word. Retried, since completion times out after two seconds, which
    may not be enough on a busy machine."""
    request = {
        "_KILONOVA_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["kilonova", *map(str, arguments)]),
        "COMP_CWORD": str(len(arguments)),
        **(variables or {}),
    }
    found: list[str] = []
    while tries and not found:
        found, tries = kilonova(variables=request).out.split(), tries - 1
    return found
