"""The command line of this benchmark, and the order in which it measures."""

import shutil
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparing import DataFolder, JsonFile, Number, Quick, Table, WithPeer, chosen, present
from bench.report import Row
from bench.workloads import bigset, idle
from bench.workloads.inputs import QUICK, Inputs
from bench.workloads.stages import Staging, on_embedded, on_kubernetes

_TABLE = Table(
    "workloads",
    "plain requests",
    (
        "Plain requests create and delete as many pods of the same spec on the same server, with "
        "the same scheduler and nodes, from a process of their own.",
        "A replica of two pods is a Service, a PodClique, a PodGang and the pods: 2.5 writes per "
        "pod before any status is told.",
    ),
)

Measure = Callable[[Staging, Path, Inputs, bool], list[Row]]


class Family(StrEnum):
    """A family of rows."""

    KUBERNETES = "kubernetes"
    EMBEDDED = "embedded"
    IDLE = "idle"


_MEASURES: dict[Family, tuple[Measure, Staging]] = {
    Family.KUBERNETES: (bigset.measure, on_kubernetes),
    Family.EMBEDDED: (bigset.measure, on_embedded),
    Family.IDLE: (idle.measure, on_kubernetes),
}


def workloads(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: Number = None,
    replicas: Annotated[int | None, typer.Option(min=2)] = None,
    idle_sets: Number = None,
    idle_seconds: Number = None,
    rest_looks: Number = None,
    connections: Number = None,
) -> None:
    """The operator of PodCliqueSets with one big set, and with many idle ones."""
    given = {
        "nodes": nodes,
        "replicas": replicas,
        "idle_sets": idle_sets,
        "idle_seconds": idle_seconds,
        "rest_looks": rest_looks,
        "connections": connections,
    }
    inputs = chosen(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            figures, staging = _MEASURES[family]
            folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
            try:
                rows += figures(staging, folder, inputs, with_peer)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return rows

    present(_TABLE, inputs, False, measure, json)
