"""Rows: `kilonova fit` on a snapshot of a large cluster, as a process from start to end."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.fleet.clusters import build_snapshot
from bench.fleet.inputs import Inputs
from bench.report import Quantity, Row
from kilonova.artifacts.builds import Build, save_build
from kilonova.scheduler.library.snapshots.file import save_snapshot_file

MAX_SECONDS = 1.0


def measure(inputs: Inputs) -> list[Row]:
    """The picture alone, and with the place of a build and the number of its copies."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_snapshot_file(build_snapshot(inputs.shown_nodes), directory / "it.json")
        save_build(Build(id="bench", model="bench", agents=inputs.agents), directory)
        title = f"fit of {inputs.shown_nodes:,} nodes"
        return [
            _measure_command(inputs, directory, title, ()),
            _measure_command(
                inputs,
                directory,
                f"{title}, with a build of {inputs.agents} agents, 10 copies",
                ("--build", "bench", "--builds", folder, "--limit", "10"),
            ),
        ]


def _measure_command(
    inputs: Inputs, directory: Path, title: str, arguments: tuple[str, ...]
) -> Row:
    """CPU seconds of the fastest run: one thread computes, and waits for nothing."""
    command = [sys.executable, "-P", "-m", "kilonova.cli", "fit", "--snapshot", "it.json"]
    best = float("inf")
    for _ in range(inputs.runs):
        before = _cpu_seconds_of_children()
        subprocess.run([*command, *arguments], cwd=directory, check=True, capture_output=True)
        best = min(best, _cpu_seconds_of_children() - before)
    return Row(Quantity(title, "s", "less", MAX_SECONDS), best)


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
