"""The command line of this benchmark."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparing import DataFolder, JsonFile, Number, Quick, Table, WithPeer, chosen, present
from bench.report import Row
from bench.schedulerapi import contest
from bench.schedulerapi.inputs import QUICK, Inputs

_TABLE = Table(
    "scheduler-api",
    "kube-scheduler",
    (
        "From the first pod that has a node to the last, on a kube-apiserver and etcd of their "
        "own, on the machine that all of it shares.",
    ),
)


def scheduler_api(
    json: JsonFile = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: Number = None,
    pods: Annotated[int | None, typer.Option(min=2)] = None,
    gang: Annotated[int | None, typer.Option(min=2)] = None,
    connections: Number = None,
) -> None:
    """Pods placed a second on a genuine API server, beside the real kube-scheduler."""
    given = {"nodes": nodes, "pods": pods, "gang": gang, "connections": connections}
    inputs = chosen(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        progress.print("measuring plain bindings, ours, kube-scheduler, a gang …")
        folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
        try:
            return contest.measure(inputs, folder, with_peer)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    present(_TABLE, inputs, with_peer, measure, json)
