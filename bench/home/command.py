"""The command line of this benchmark, and the order in which it measures."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.home import creates, events, lists, start, watches
from bench.home.inputs import QUICK, Inputs
from bench.home.servers import Start, ours, peer
from bench.report import Figures, Report, Row
from tests.harness.controlplane import HOW_TO_GET, binaries

_PAPER_WIDTH = 160
_PEER = "kube-apiserver + etcd"
_NOTES = (
    "What `kill -9` loses is not a benchmark but a test: tests/faults/test_kill.py, `make faults`.",
    "CPU per event has no peer in this run: the project depends on no other controller runtime.",
)

Measure = Callable[[Start, Path, Inputs], Figures]


class Family(StrEnum):
    """A family of rows."""

    START = "start"
    CREATES = "creates"
    WATCHES = "watches"
    LISTS = "lists"
    EVENTS = "events"


def home(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file too.")] = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: Annotated[
        bool, typer.Option("--peer/--no-peer", help="Measure kube-apiserver + etcd too.")
    ] = True,
    data: Annotated[
        Path | None, typer.Option(help="Where servers keep their data: a folder on a disk.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything.")] = False,
    starts: Annotated[int | None, typer.Option(min=1)] = None,
    pods: Annotated[int | None, typer.Option(min=1, help="Pods to create.")] = None,
    connections: Annotated[int | None, typer.Option(min=1)] = None,
    watches: Annotated[int | None, typer.Option(min=1)] = None,
    events_per_second: Annotated[int | None, typer.Option(min=1)] = None,
    watch_seconds: Annotated[int | None, typer.Option(min=1)] = None,
    list_pods: Annotated[int | None, typer.Option(min=1, help="Pods to list.")] = None,
    objects: Annotated[int | None, typer.Option(min=1, help="Objects in the store.")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="Events to take in.")] = None,
) -> None:
    """The embedded API beside kube-apiserver + etcd, and the cost of our controller runtime."""
    given = {
        "starts": starts,
        "pods": pods,
        "connections": connections,
        "watches": watches,
        "events_per_second": events_per_second,
        "watch_seconds": watch_seconds,
        "list_pods": list_pods,
        "objects": objects,
        "events": events,
    }
    inputs = replace(
        QUICK if quick else Inputs(),
        **{name: value for name, value in given.items() if value is not None},
    )
    progress = Console(stderr=True)
    if with_peer and binaries() is None:
        progress.print(f"{HOW_TO_GET}; or measure ours alone with --no-peer")
        raise typer.Exit(1)
    busy = f"Load average before the run: {os.getloadavg()[0]:.1f}."
    try:
        rows = measure_families(only or list(Family), inputs, with_peer, data, progress)
    except (RuntimeError, OSError) as error:
        progress.print(f"cannot go on: {error}", markup=False)
        raise typer.Exit(1) from error
    report = Report("home", _PEER, asdict(inputs), rows, (busy, *_NOTES))
    console = Console()
    report.print(console if console.is_terminal else Console(width=_PAPER_WIDTH))
    if json is not None:
        report.write(json)


def measure_families(
    families: Sequence[Family],
    inputs: Inputs,
    with_peer: bool,
    data: Path | None,
    progress: Console,
) -> list[Row]:
    """The rows of the families asked for; both servers of a row one right after the other."""

    def compare(measure: Measure, our_start: Start, peer_start: Start) -> list[Row]:
        found = [
            _in_fresh_folder(measure, start, inputs, data)
            for start in ((peer_start, our_start) if with_peer else (our_start,))
        ]
        peers = found[0] if with_peer else {}
        return [
            Row(quantity, figure, peers.get(quantity)) for quantity, figure in found[-1].items()
        ]

    rows: list[Row] = []
    for family in families:
        progress.print(f"measuring {family} …")
        match family:
            case Family.START:
                rows += compare(start.measure, ours(), peer())
            case Family.CREATES:
                rows += compare(creates.measure, ours(), peer())
                rows += compare(creates.measure_rates, ours("normal"), peer(durable=False))
            case Family.WATCHES:
                rows += compare(watches.measure, ours(), peer())
            case Family.LISTS:
                rows += compare(lists.measure, ours(), peer())
            case Family.EVENTS:
                rows += [
                    Row(quantity, figure) for quantity, figure in events.measure(inputs).items()
                ]
    return rows


def _in_fresh_folder(measure: Measure, start: Start, inputs: Inputs, data: Path | None) -> Figures:
    folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
    try:
        return measure(start, folder, inputs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
