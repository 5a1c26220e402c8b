"""The command line of this benchmark, and the order in which it measures."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.cluster import full, rest
from bench.cluster.inputs import QUICK, Inputs
from bench.cluster.worlds import World, our_world, peer_world
from bench.comparing import (
    DataFolder,
    JsonFile,
    Number,
    Quick,
    Table,
    WithPeer,
    chosen,
    compared,
    present,
)
from bench.report import Figures, Row

_TABLE = Table(
    "cluster",
    "kube-apiserver + etcd + kube-controller-manager",
    ("The table of the embedded API itself is that of `python -m bench home`.",),
)

Measure = Callable[[World, Path, Inputs], Figures]


class Family(StrEnum):
    """A family of rows."""

    REST = "rest"
    FULL = "full"


_MEASURES: dict[Family, Measure] = {Family.REST: rest.measure, Family.FULL: full.measure}


def cluster(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: Number = None,
    pods: Number = None,
    idle_nodes: Number = None,
    idle_seconds: Number = None,
    watches: Number = None,
    watch_seconds: Number = None,
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
    inputs = chosen(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            figures = _MEASURES[family]
            rows += compared(
                lambda folder, figures=figures: figures(our_world, folder, inputs),
                (lambda folder, figures=figures: figures(peer_world, folder, inputs))
                if with_peer
                else None,
                data,
            )
        return rows

    present(_TABLE, inputs, with_peer, measure, json)
