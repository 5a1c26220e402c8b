"""The command line of this benchmark."""

import shutil
import tempfile
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
from bench.schedulerapi import schedulers
from bench.schedulerapi.inputs import QUICK, Inputs

_INFO = BenchmarkInfo(
    "scheduler-api",
    "kube-scheduler",
    (
        "From the first to the last binding, each scheduler on its own kube-apiserver and etcd, "
        "all on the same machine.",
    ),
)


def scheduler_api(
    json: JsonFile = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    nodes: PositiveInt = None,
    pods: Annotated[int | None, typer.Option(min=2)] = None,
    gang: Annotated[int | None, typer.Option(min=2)] = None,
    connections: PositiveInt = None,
) -> None:
    """Pods scheduled per second on a kube-apiserver, compared with kube-scheduler."""
    given = {"nodes": nodes, "pods": pods, "gang": gang, "connections": connections}
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        progress.print("measuring plain bindings, ours, kube-scheduler and a gang …")
        folder = Path(tempfile.mkdtemp(prefix="kilonova-bench-", dir=data))
        try:
            return schedulers.measure(inputs, folder, with_peer)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    run_benchmark(_INFO, inputs, with_peer, measure, json)
