"""The command line of this benchmark, and the order in which it measures."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparing import DataFolder, JsonFile, Number, Quick, Table, WithPeer, chosen, present
from bench.product import helps, idle, latency, paints, starts
from bench.product.inputs import QUICK, Inputs
from bench.report import Row

_TABLE = Table(
    "product",
    "Kubernetes' own",
    (
        "Beside the command stands kubectl; beside `up`, kube-apiserver + etcd until they are "
        "ready, without a node; at rest, kube-apiserver, etcd and kube-controller-manager with as "
        "many simulated nodes; beside the console's stream, a plain watch of the same API.",
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
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    large: Annotated[bool, typer.Option(help="Measure the cluster of 2,000 nodes too.")] = True,
    helps: Number = None,
    starts: Number = None,
    settle_seconds: Number = None,
    idle_seconds: Number = None,
    paints: Number = None,
    changes_per_second: Number = None,
    change_seconds: Number = None,
) -> None:
    """What a new user waits for: the command, `kilonova up`, the console."""
    given = {
        "helps": helps,
        "starts": starts,
        "settle_seconds": settle_seconds,
        "idle_seconds": idle_seconds,
        "paints": paints,
        "changes_per_second": changes_per_second,
        "change_seconds": change_seconds,
    }
    inputs = chosen(QUICK if quick else Inputs(), given)
    fleets = ["small", "large"] if large else ["small"]

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += measure_family(family, fleets, inputs, with_peer, data)
        return rows

    present(_TABLE, inputs, with_peer, measure, json)


def measure_family(
    family: Family, fleets: Sequence[str], inputs: Inputs, with_peer: bool, data: Path | None
) -> list[Row]:
    """The rows of one family."""
    match family:
        case Family.HELP:
            return helps.measure(inputs, with_peer)
        case Family.START:
            return starts.measure(fleets, inputs, with_peer, data)
        case Family.IDLE:
            return idle.measure(inputs, with_peer, data)
        case Family.PAINT:
            return paints.measure(fleets, inputs, data)
        case Family.LATENCY:
            return latency.measure(inputs, data)
