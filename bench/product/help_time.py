"""Time of `--help`, of the command and of kubectl."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.product.inputs import Inputs
from bench.product.instance import find_command
from bench.report import Quantity, Row
from tests.harness.control_plane import find_binaries

HELP = Quantity("kilonova --help (kubectl --help)", "ms", target=150)
FLOOR = Quantity("python -c pass (lower bound)", "ms")


def measure(inputs: Inputs, with_peer: bool) -> list[Row]:
    """Medians; the commands alternate, so that disturbances affect all."""
    ours: Sequence[str] = [str(find_command()), "--help"]
    floor: Sequence[str] = [sys.executable, "-c", "pass"]
    commands = [ours, floor]
    folder = find_binaries() if with_peer else None
    if folder is not None:
        commands.append([str(folder / "kubectl"), "--help"])
    for command in commands:
        _time_command(command)
    times = [[_time_command(command) for command in commands] for _ in range(inputs.helps)]
    medians = [statistics.median(column) * 1e3 for column in zip(*times, strict=True)]
    return [
        Row(HELP, medians[0], medians[2] if folder is not None else None),
        Row(FLOOR, medians[1]),
    ]


def _time_command(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start
