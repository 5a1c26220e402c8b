"""The command line of this benchmark, and the order in which it measures."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.cluster import full, rest
from bench.cluster.inputs import QUICK, Inputs
from bench.cluster.worlds import World, our_world, peer_world
from bench.report import Figures, Report, Row
from tests.harness.controlplane import HOW_TO_GET, binaries

_PAPER_WIDTH = 160
_PEER = "kube-apiserver + etcd + kube-controller-manager"
_NOTES = ("The table of the embedded API itself is that of `python -m bench home`.",)

Measure = Callable[[World, Path, Inputs], Figures]


class Family(StrEnum):
    """A family of rows."""

    REST = "rest"
    FULL = "full"


_MEASURES: dict[Family, Measure] = {Family.REST: rest.measure, Family.FULL: full.measure}


def cluster(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file too.")] = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: Annotated[
        bool, typer.Option("--peer/--no-peer", help="Measure Kubernetes too.")
    ] = True,
    data: Annotated[
        Path | None, typer.Option(help="Where servers keep their data: a folder on a disk.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything.")] = False,
    nodes: Annotated[int | None, typer.Option(min=1)] = None,
    pods: Annotated[int | None, typer.Option(min=1)] = None,
    idle_nodes: Annotated[int | None, typer.Option(min=1)] = None,
    idle_seconds: Annotated[int | None, typer.Option(min=1)] = None,
    watches: Annotated[int | None, typer.Option(min=1)] = None,
    watch_seconds: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """A big cluster whole, with simulated nodes, beside Kubernetes with the same ones."""
    given = {
        "nodes": nodes,
        "pods": pods,
        "idle_nodes": idle_nodes,
        "idle_seconds": idle_seconds,
        "watches": watches,
        "watch_seconds": watch_seconds,
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
    rows: list[Row] = []
    try:
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _compared(_MEASURES[family], inputs, with_peer, data)
    except (RuntimeError, OSError) as error:
        progress.print(f"cannot go on: {error}", markup=False)
        raise typer.Exit(1) from error
    report = Report("cluster", _PEER, asdict(inputs), rows, (busy, *_NOTES))
    console = Console()
    report.print(console if console.is_terminal else Console(width=_PAPER_WIDTH))
    if json is not None:
        report.write(json)


def _compared(measure: Measure, inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    peers = _in_fresh_folder(measure, peer_world, inputs, data) if with_peer else {}
    figures = _in_fresh_folder(measure, our_world, inputs, data)
    return [Row(quantity, figure, peers.get(quantity)) for quantity, figure in figures.items()]


def _in_fresh_folder(measure: Measure, world: World, inputs: Inputs, data: Path | None) -> Figures:
    folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
    try:
        return measure(world, folder, inputs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
