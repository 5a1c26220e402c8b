"""The command line of this benchmark."""

import shutil
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparison import (
    BenchmarkInfo,
    DataFolder,
    JsonFile,
    PositiveInt,
    Quick,
    WithPeer,
    apply_options,
    run_benchmark,
)
from bench.report import Row
from bench.workloads import big_set, idle
from bench.workloads.clusters import (
    BenchmarkCluster,
    StartCluster,
    start_embedded,
    start_kubernetes,
)
from bench.workloads.inputs import QUICK, Inputs

_INFO = BenchmarkInfo(
    "workloads",
    "plain requests",
    (
        "Plain requests create and delete as many pods of the same spec on the same server, with "
        "the same scheduler and nodes, from a separate process.",
        "A replica of two pods is a Service, a PodClique, a PodGang and the pods: 2.5 writes per "
        "pod without statuses.",
    ),
)

Measure = Callable[[BenchmarkCluster, Path, Inputs, bool], list[Row]]


class Family(StrEnum):
    """A family of rows."""

    KUBERNETES = "kubernetes"
    IDLE = "idle"
    EMBEDDED = "embedded"


_MEASURES: dict[StartCluster, dict[Family, Measure]] = {
    start_kubernetes: {Family.KUBERNETES: big_set.measure, Family.IDLE: idle.measure},
    start_embedded: {Family.EMBEDDED: big_set.measure},
}
"""Families by their cluster: those of one cluster are measured on it one after the other."""


def workloads(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: PositiveInt = None,
    replicas: Annotated[int | None, typer.Option(min=2)] = None,
    idle_sets: PositiveInt = None,
    idle_seconds: PositiveInt = None,
    scale_step: PositiveInt = None,
    rest_looks: PositiveInt = None,
    connections: PositiveInt = None,
) -> None:
    """The PodCliqueSet operator with one big set, and with many idle ones."""
    given = {
        "nodes": nodes,
        "replicas": replicas,
        "idle_sets": idle_sets,
        "idle_seconds": idle_seconds,
        "scale_step": scale_step,
        "rest_looks": rest_looks,
        "connections": connections,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for start_cluster, measures in _MEASURES.items():
            families = [each for each in measures if each in (only or Family)]
            if not families:
                continue
            folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
            try:
                with start_cluster(folder, inputs.nodes) as cluster:
                    for family in families:
                        progress.print(f"measuring {family} …")
                        rows += measures[family](cluster, folder, inputs, with_peer)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return rows

    run_benchmark(_INFO, inputs, False, measure, json)
