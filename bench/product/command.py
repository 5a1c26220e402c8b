"""The command line of this benchmark."""

from collections.abc import Sequence
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
from bench.product import help_time, idle, latency, page_loads, startup
from bench.product.inputs import QUICK, Inputs
from bench.report import Row

_INFO = BenchmarkInfo(
    "product",
    "Kubernetes",
    (
        "The peer of the command is kubectl; of `up`, kube-apiserver + etcd until they are ready, "
        "without a node; of idle CPU and memory, kube-apiserver, etcd and kube-controller-manager "
        "with as many simulated nodes; of the console's stream, a watch of the same API.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    HELP = "help"
    START = "start"
    IDLE = "idle"
    PAINT = "paint"
    LATENCY = "latency"


def product(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    large: Annotated[bool, typer.Option(help="Also measure a cluster of 2,000 nodes.")] = True,
    helps: PositiveInt = None,
    starts: PositiveInt = None,
    settle_seconds: PositiveInt = None,
    idle_seconds: PositiveInt = None,
    paints: PositiveInt = None,
    changes_per_second: PositiveInt = None,
    change_seconds: PositiveInt = None,
) -> None:
    """What users wait for: the CLI, `kilonova up`, the console."""
    given = {
        "helps": helps,
        "starts": starts,
        "settle_seconds": settle_seconds,
        "idle_seconds": idle_seconds,
        "paints": paints,
        "changes_per_second": changes_per_second,
        "change_seconds": change_seconds,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)
    fleets = ["small", "large"] if large else ["small"]

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += measure_family(family, fleets, inputs, with_peer, data)
        return rows

    run_benchmark(_INFO, inputs, with_peer, measure, json)


def measure_family(
    family: Family, fleets: Sequence[str], inputs: Inputs, with_peer: bool, data: Path | None
) -> list[Row]:
    """The rows of one family."""
    match family:
        case Family.HELP:
            return help_time.measure(inputs, with_peer)
        case Family.START:
            return startup.measure(fleets, inputs, with_peer, data)
        case Family.IDLE:
            return idle.measure(inputs, with_peer, data)
        case Family.PAINT:
            return page_loads.measure(fleets, inputs, data)
        case Family.LATENCY:
            return latency.measure(inputs, data)
