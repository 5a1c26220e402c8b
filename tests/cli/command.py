"""The `kilonova` command as a test runs it: in a process of its own, far from the user's home."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from tests.cli.forked import Done, run_forked

_SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Kilonova:
    """Runs `kilonova`; clusters that it started in the background end with the test."""

    home: Path
    _data: set[Path] = field(default_factory=set[Path])

    def __call__(self, *words: str | Path) -> Done:
        """Run a command to its end."""
        return run_forked([*map(str, words)], self.environment(), self.home)

    def detach(self, data: Path, *words: str | Path) -> Done:
        """`up --detach --wait` on a free port, without this machine and the console unless they are
        asked for."""
        self.ends_with_the_test(data)
        mode = ("--detach", "--wait", "--no-process-node", "--no-console", "--port", "0")
        return self("up", *mode, "--data", data, *words)

    def status(self, data: Path) -> dict[str, Any]:
        """What `status -o json` says."""
        return json.loads(self("status", "-o", "json", "--data", data).out)

    def command(self, *words: str | Path) -> list[str]:
        """The command line, for those who start it themselves."""
        return [sys.executable, "-P", "-m", "kilonova.cli", *map(str, words)]

    def environment(self) -> dict[str, str]:
        """Nothing of the user's but where programs are found."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(_SOURCE),
            "TERM": "xterm",
        }

    def ends_with_the_test(self, data: Path) -> None:
        """Whatever will run on `data` is not to outlive the test."""
        self._data.add(data)

    def end(self) -> None:
        """Kill what still runs, pods included."""
        for data in self._data:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pid = json.loads((data / "running.json").read_bytes())["pid"]
                os.kill(pid, signal.SIGKILL)
            # Processes of pods outlive the cluster by design.
            asyncio.run(KeeperRuntime(data / "keeper").shutdown())


def completed(kilonova: Kilonova, words: Sequence[str], tries: int = 5) -> list[str]:
    """What the shell offers. It has two seconds for it, which may be few on a busy machine."""
    found: list[str] = []
    while tries and not found:
        found, tries = _offered(kilonova, words), tries - 1
    return found


def _offered(kilonova: Kilonova, words: Sequence[str]) -> list[str]:
    environment = kilonova.environment() | {
        "_KILONOVA_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["kilonova", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        kilonova.command(), env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.split()
