"""The command line of this benchmark."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.cluster import full_cluster, idle
from bench.cluster.clusters import StartCluster, start_embedded_cluster, start_peer_cluster
from bench.cluster.inputs import QUICK, Inputs
from bench.comparison import (
    BenchmarkInfo,
    DataFolder,
    JsonFile,
    PositiveInt,
    Quick,
    WithPeer,
    apply_options,
    compare_with_peer,
    run_benchmark,
)
from bench.report import Measurements, Row

_INFO = BenchmarkInfo(
    "cluster",
    "kube-apiserver + etcd + kube-controller-manager",
    ("The embedded API itself is measured by `python -m bench home`.",),
)

Measure = Callable[[StartCluster, Path, Inputs], Measurements]


class Family(StrEnum):
    """A family of rows."""

    REST = "rest"
    FULL = "full"


_MEASURES: dict[Family, Measure] = {Family.REST: idle.measure, Family.FULL: full_cluster.measure}


def cluster(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: PositiveInt = None,
    pods: PositiveInt = None,
    idle_nodes: PositiveInt = None,
    idle_seconds: PositiveInt = None,
    connections: PositiveInt = None,
    lists: PositiveInt = None,
    watches: PositiveInt = None,
    watch_seconds: PositiveInt = None,
) -> None:
    """A big cluster with simulated nodes, compared with Kubernetes with the same nodes."""
    given = {
        "nodes": nodes,
        "pods": pods,
        "idle_nodes": idle_nodes,
        "idle_seconds": idle_seconds,
        "connections": connections,
        "lists": lists,
        "watches": watches,
        "watch_seconds": watch_seconds,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            figures = _MEASURES[family]
            rows += compare_with_peer(
                lambda folder, figures=figures: figures(start_embedded_cluster, folder, inputs),
                (lambda folder, figures=figures: figures(start_peer_cluster, folder, inputs))
                if with_peer
                else None,
                data,
            )
        return rows

    run_benchmark(_INFO, inputs, with_peer, measure, json)
