"""How long it takes to say what one can do: `--help` of the command, and of kubectl."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.product.inputs import Inputs
from bench.product.running import command
from bench.report import Quantity, Row
from tests.harness.controlplane import binaries

HELP = Quantity("kilonova --help (kubectl --help)", "ms", aim=150)
FLOOR = Quantity("python -c pass, of which that is made", "ms")


def measure(inputs: Inputs, with_peer: bool) -> list[Row]:
    """Medians; the commands take turns, so that what disturbs one disturbs all."""
    ours: Sequence[str] = [str(command()), "--help"]
    floor: Sequence[str] = [sys.executable, "-c", "pass"]
    commands = [ours, floor]
    folder = binaries() if with_peer else None
    if folder is not None:
        commands.append([str(folder / "kubectl"), "--help"])
    for words in commands:
        _took(words)
    rounds = [[_took(words) for words in commands] for _ in range(inputs.helps)]
    medians = [statistics.median(column) * 1e3 for column in zip(*rounds, strict=True)]
    return [
        Row(HELP, medians[0], medians[2] if folder is not None else None),
        Row(FLOOR, medians[1]),
    ]


def _took(words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
