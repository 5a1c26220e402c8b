"""The command line of this benchmark, and the order in which it measures."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
from bench.home import creates, events, lists, start, watches
from bench.home.inputs import QUICK, Inputs
from bench.home.servers import Start, ours, peer
from bench.report import Figures, Row

_TABLE = Table(
    "home",
    "kube-apiserver + etcd",
    (
        "What `kill -9` loses is not a benchmark but a test: tests/faults/test_kill.py, "
        "`make faults`.",
        "CPU per event has no peer in this run: the project depends on no other controller "
        "runtime.",
    ),
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
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    starts: Number = None,
    pods: Annotated[int | None, typer.Option(min=1, help="Pods to create.")] = None,
    connections: Number = None,
    watches: Number = None,
    events_per_second: Number = None,
    watch_seconds: Number = None,
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
    inputs = chosen(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        return measure_families(only or list(Family), inputs, with_peer, data, progress)

    present(_TABLE, inputs, with_peer, measure, json)


def measure_families(
    families: Sequence[Family],
    inputs: Inputs,
    with_peer: bool,
    data: Path | None,
    progress: Console,
) -> list[Row]:
    """The rows of the families asked for; both servers of a row one right after the other."""

    def compare(measure: Measure, our_start: Start, peer_start: Start) -> list[Row]:
        return compared(
            lambda folder: measure(our_start, folder, inputs),
            (lambda folder: measure(peer_start, folder, inputs)) if with_peer else None,
            data,
        )

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
