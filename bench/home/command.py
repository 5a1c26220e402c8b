"""The command line of this benchmark."""

from collections.abc import Callable, Sequence
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
    compare_with_peer,
    run_benchmark,
)
from bench.home import creates, events, lists, startup, watches
from bench.home.inputs import QUICK, Inputs
from bench.home.servers import StartServer, start_embedded, start_peer
from bench.report import Measurements, Row

_INFO = BenchmarkInfo(
    "home",
    "kube-apiserver + etcd",
    (
        "Durability after `kill -9` is not measured but tested: tests/faults/test_kill.py, "
        "`make faults`.",
        "CPU per event has no peer: the project depends on no other controller runtime.",
    ),
)

Measure = Callable[[StartServer, Path, Inputs], Measurements]


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
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    starts: PositiveInt = None,
    pods: Annotated[int | None, typer.Option(min=1, help="Pods to create.")] = None,
    connections: PositiveInt = None,
    watches: PositiveInt = None,
    events_per_second: PositiveInt = None,
    watch_seconds: PositiveInt = None,
    list_pods: Annotated[int | None, typer.Option(min=1, help="Pods to list.")] = None,
    objects: Annotated[int | None, typer.Option(min=1, help="Objects in the store.")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="Watch events to process.")] = None,
) -> None:
    """The embedded API compared with kube-apiserver + etcd, and our controller runtime."""
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
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        return measure_families(only or list(Family), inputs, with_peer, data, progress)

    run_benchmark(_INFO, inputs, with_peer, measure, json)


def measure_families(
    families: Sequence[Family],
    inputs: Inputs,
    with_peer: bool,
    data: Path | None,
    progress: Console,
) -> list[Row]:
    """The rows of the requested families; both servers of a row one right after the other."""

    def compare(measure: Measure, our_start: StartServer, peer_start: StartServer) -> list[Row]:
        return compare_with_peer(
            lambda folder: measure(our_start, folder, inputs),
            (lambda folder: measure(peer_start, folder, inputs)) if with_peer else None,
            data,
        )

    rows: list[Row] = []
    for family in families:
        progress.print(f"measuring {family} …")
        match family:
            case Family.START:
                rows += compare(startup.measure, start_embedded(), start_peer())
            case Family.CREATES:
                rows += compare(creates.measure, start_embedded(), start_peer())
                rows += compare(
                    creates.measure_rates, start_embedded("normal"), start_peer(durable=False)
                )
            case Family.WATCHES:
                rows += compare(watches.measure, start_embedded(), start_peer())
            case Family.LISTS:
                rows += compare(lists.measure, start_embedded(), start_peer())
            case Family.EVENTS:
                rows += [
                    Row(quantity, figure) for quantity, figure in events.measure(inputs).items()
                ]
    return rows
