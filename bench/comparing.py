"""What the commands of all benchmarks share: measure both servers, print and keep the table."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from rich.console import Console

from bench.report import Figures, Report, Row
from tests.harness.controlplane import HOW_TO_GET, binaries

T = TypeVar("T")
_PAPER_WIDTH = 160

JsonFile = Annotated[Path | None, typer.Option(help="Write the figures to this file too.")]
WithPeer = Annotated[bool, typer.Option("--peer/--no-peer", help="Measure the peer too.")]
DataFolder = Annotated[
    Path | None, typer.Option(help="Where servers keep their data: a folder on a disk.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Less of everything.")]
Number = Annotated[int | None, typer.Option(min=1)]


@dataclass(frozen=True, slots=True)
class Table:
    """A benchmark: its name, beside whom it is measured, and what is said below the table."""

    name: str
    peer: str
    notes: Sequence[str]


def chosen(inputs: T, given: Mapping[str, int | None]) -> T:
    """The inputs, with those replaced that were given on the command line."""
    changes: Any = {name: value for name, value in given.items() if value is not None}
    return replace(cast(Any, inputs), **changes)


def present(
    table: Table,
    inputs: Any,
    with_peer: bool,
    measure: Callable[[Console], list[Row]],
    json: Path | None,
) -> None:
    """Measure and show; where that cannot be, say why and end with 1."""
    progress = Console(stderr=True)
    if with_peer and binaries() is None:
        progress.print(f"{HOW_TO_GET}; or measure ours alone with --no-peer")
        raise typer.Exit(1)
    busy = f"Load average before the run: {os.getloadavg()[0]:.1f}."
    try:
        rows = measure(progress)
    except (RuntimeError, OSError) as error:
        progress.print(f"cannot go on: {error}", markup=False)
        raise typer.Exit(1) from error
    report = Report(table.name, table.peer, asdict(inputs), rows, (busy, *table.notes))
    console = Console()
    report.print(console if console.is_terminal else Console(width=_PAPER_WIDTH))
    if json is not None:
        report.write(json)


def compared(
    ours: Callable[[Path], Figures], peer: Callable[[Path], Figures] | None, data: Path | None
) -> list[Row]:
    """The rows of one family: the peer first, then ours, each in an empty folder."""
    peers = in_fresh_folder(peer, data) if peer is not None else {}
    figures = in_fresh_folder(ours, data)
    return [Row(quantity, figure, peers.get(quantity)) for quantity, figure in figures.items()]


def in_fresh_folder(measure: Callable[[Path], T], data: Path | None) -> T:
    """What is measured in an empty folder, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
    try:
        return measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
