"""Shared by the commands of all benchmarks: measure both servers, print and store the table."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from rich.console import Console

from bench.report import Measurements, Report, Row
from tests.harness.control_plane import MISSING_BINARIES_MESSAGE, find_binaries

T = TypeVar("T")
_NON_TERMINAL_WIDTH = 160

JsonFile = Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")]
WithPeer = Annotated[bool, typer.Option("--peer/--no-peer", help="Measure the peer as well.")]
DataFolder = Annotated[
    Path | None, typer.Option(help="Directory for the servers' data, on a disk.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Use small inputs.")]
PositiveInt = Annotated[int | None, typer.Option(min=1)]


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    """A benchmark: its name, its peer, and the notes below the table."""

    name: str
    peer: str
    notes: Sequence[str]


def apply_options(inputs: T, options: Mapping[str, int | None]) -> T:
    """The inputs with the values given on the command line."""
    changes: Any = {name: value for name, value in options.items() if value is not None}
    return replace(cast(Any, inputs), **changes)


def run_benchmark(
    table: BenchmarkInfo,
    inputs: Any,
    with_peer: bool,
    measure: Callable[[Console], list[Row]],
    json: Path | None,
) -> None:
    """Measure and print; exits with 1 and a message where that is impossible."""
    progress = Console(stderr=True)
    if with_peer and find_binaries() is None:
        progress.print(f"{MISSING_BINARIES_MESSAGE}; or run without the peer with --no-peer")
        raise typer.Exit(1)
    load = f"Load average before the run: {os.getloadavg()[0]:.1f}."
    try:
        rows = measure(progress)
    except (RuntimeError, OSError) as error:
        progress.print(f"benchmark failed: {error}", markup=False)
        raise typer.Exit(1) from error
    report = Report(table.name, table.peer, asdict(inputs), rows, (load, *table.notes))
    console = Console()
    report.print(console if console.is_terminal else Console(width=_NON_TERMINAL_WIDTH))
    if json is not None:
        report.write(json)


def compare_with_peer(
    ours: Callable[[Path], Measurements],
    peer: Callable[[Path], Measurements] | None,
    data: Path | None,
) -> list[Row]:
    """The rows of one family: the peer first, then ours, each in an empty directory."""
    peers = measure_in_temporary_folder(peer, data) if peer is not None else {}
    figures = measure_in_temporary_folder(ours, data)
    return [Row(quantity, figure, peers.get(quantity)) for quantity, figure in figures.items()]


def measure_in_temporary_folder(measure: Callable[[Path], T], data: Path | None) -> T:
    """Measure in an empty directory, which is deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
    try:
        return measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
