"""The command line of this benchmark."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from bench.comparison import (
    BenchmarkInfo,
    JsonFile,
    PositiveInt,
    Quick,
    WithPeer,
    apply_options,
    run_benchmark,
)
from bench.fleet import allocation, nebula, picture, swap, takeover
from bench.fleet.inputs import QUICK, Inputs
from bench.report import Row

_INFO = BenchmarkInfo(
    "fleet",
    "kube-controller-manager + kube-scheduler",
    (
        "Only swaps have a peer: a Deployment of as many pods, which tolerate a dead node for no "
        "time, on kube-apiserver and etcd with the same simulated nodes. Its pods are no gang.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    ALLOCATION = "allocation"
    FIT = "fit"
    SWAP = "swap"
    TAKEOVER = "takeover"
    NEBULA = "nebula"


_MEASURES: dict[Family, Callable[[Inputs, bool], list[Row]]] = {
    Family.ALLOCATION: lambda inputs, _: allocation.measure(inputs),
    Family.FIT: lambda inputs, _: picture.measure(inputs),
    Family.SWAP: swap.measure,
    Family.TAKEOVER: lambda inputs, _: takeover.measure(inputs),
    Family.NEBULA: lambda inputs, _: nebula.measure(inputs),
}


def fleet(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    quick: Quick = False,
    nodes: PositiveInt = None,
    agents: PositiveInt = None,
    clusters: PositiveInt = None,
    instances: PositiveInt = None,
    runs: PositiveInt = None,
    swap_nodes: PositiveInt = None,
    swaps: PositiveInt = None,
    takeovers: PositiveInt = None,
    lease_seconds: PositiveInt = None,
) -> None:
    """Instances of models: their allocation, the picture of a large cluster, the swap of a dead
    node; many clusters, and the takeover of the lead of a fleet."""
    given = {
        "nodes": nodes,
        "agents": agents,
        "clusters": clusters,
        "instances": instances,
        "runs": runs,
        "swap_nodes": swap_nodes,
        "swaps": swaps,
        "takeovers": takeovers,
        "lease_seconds": lease_seconds,
    }
    needs_peer = Family.SWAP in (only or Family)
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _MEASURES[family](inputs, with_peer)
        return rows

    run_benchmark(_INFO, inputs, with_peer and needs_peer, measure, json)
