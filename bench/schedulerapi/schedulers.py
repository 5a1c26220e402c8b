"""The three schedulers, each on its own server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.report import Quantity, Row
from bench.schedulerapi.cluster import (
    GANGS,
    NAMESPACE,
    build_gang,
    build_pod,
    create_nodes_and_pods,
    observing_cluster,
    run_concurrently,
)
from bench.schedulerapi.inputs import Inputs
from tests.harness.control_plane import ControlPlane
from tests.harness.server_process import ServerProcess

_OUR_SCHEDULER_NAME = "kilonova-scheduler"
_DEFAULT_SCHEDULER_NAME = "default-scheduler"

StartScheduler = Callable[[ControlPlane, Path], AbstractContextManager[psutil.Process]]


@dataclass(frozen=True, slots=True)
class SchedulerRun:
    """The rate of a scheduler, and its CPU and memory."""

    rate: float
    cpu: float
    memory: float


def measure(inputs: Inputs, folder: Path, with_peer: bool) -> list[Row]:
    """Pods per second, compared with kube-scheduler and plain bindings."""
    plain = _measure_plain_bindings(inputs, folder / "bare")
    ours = _measure_scheduler(inputs, folder / "ours", _OUR_SCHEDULER_NAME, _run_our_scheduler)
    size = f"{inputs.pods:,} pods on {inputs.nodes:,} nodes"
    share = Row(
        Quantity("share of the plain binding rate", "%", "more", 90), 100 * ours.rate / plain
    )
    placed = Quantity(f"scheduled, {size}", "pods/s", "more")
    gang_row = _measure_gang(inputs, folder / "gang")
    if not with_peer:
        return [Row(placed, ours.rate), share, gang_row]
    theirs = _measure_scheduler(
        inputs, folder / "theirs", _DEFAULT_SCHEDULER_NAME, _run_kube_scheduler
    )
    return [
        Row(placed, ours.rate, theirs.rate),
        share,
        Row(Quantity("times kube-scheduler's rate", "×", "more", 4), ours.rate / theirs.rate),
        Row(Quantity("CPU", "s"), ours.cpu, theirs.cpu),
        Row(Quantity("memory", "MB"), ours.memory, theirs.memory),
        gang_row,
    ]


def _measure_plain_bindings(inputs: Inputs, folder: Path) -> float:
    with ControlPlane.start(folder, durable=True) as plane:

        async def run() -> float:
            async with observing_cluster(plane.access.kubeconfig) as (client, observer):
                await create_nodes_and_pods(
                    client,
                    inputs.nodes,
                    lambda index: build_pod(f"pod-{index}", "nobody"),
                    inputs.pods,
                    inputs.connections,
                )
                calls = (
                    client.bind(f"pod-{index}", NAMESPACE, f"node-{index % inputs.nodes:05}")
                    for index in range(inputs.pods)
                )
                await run_concurrently(calls, inputs.connections)
                return await observer.measure_seconds(inputs.pods)

        return inputs.pods / asyncio.run(run())


def _measure_scheduler(
    inputs: Inputs, folder: Path, scheduler: str, start_scheduler: StartScheduler
) -> SchedulerRun:
    with ControlPlane.start(folder, durable=True) as plane:
        _install_crds(plane)

        async def run() -> SchedulerRun:
            async with observing_cluster(plane.access.kubeconfig) as (client, observer):
                await create_nodes_and_pods(
                    client,
                    inputs.nodes,
                    lambda index: build_pod(f"pod-{index}", scheduler),
                    inputs.pods,
                    inputs.connections,
                )
                loop = asyncio.get_running_loop()
                running = start_scheduler(plane, folder)
                process = await loop.run_in_executor(None, running.__enter__)
                try:
                    seconds = await observer.measure_seconds(inputs.pods)
                    return SchedulerRun(inputs.pods / seconds, *_get_usage(process))
                finally:
                    running.__exit__(None, None, None)

        return asyncio.run(run())


def _measure_gang(inputs: Inputs, folder: Path) -> Row:
    """A gang that is complete when the scheduler sees its last pod."""
    names = [f"worker-{index}" for index in range(inputs.gang)]
    with ControlPlane.start(folder, durable=True) as plane:
        _install_crds(plane)

        async def run() -> float:
            async with observing_cluster(plane.access.kubeconfig) as (client, observer):
                await create_nodes_and_pods(
                    client,
                    inputs.nodes,
                    lambda index: build_pod(
                        names[index], _OUR_SCHEDULER_NAME, {"grove.io/podgang": "big"}
                    ),
                    inputs.gang,
                    inputs.connections,
                )
                loop = asyncio.get_running_loop()
                running = _run_our_scheduler(plane, folder)
                await loop.run_in_executor(None, running.__enter__)
                try:
                    await client.create(GANGS, build_gang("big", names, inputs.gang), NAMESPACE)
                    return await observer.measure_seconds(inputs.gang)
                finally:
                    running.__exit__(None, None, None)

        seconds = asyncio.run(run())
    return Row(
        Quantity(f"a gang of {inputs.gang:,} pods bound", "pods/s", "more"), inputs.gang / seconds
    )


@contextmanager
def _run_our_scheduler(plane: ControlPlane, folder: Path) -> Generator[psutil.Process]:
    command = [sys.executable, "-m", "kilonova.cli", "run", "scheduler", "--no-leader-elect"]
    command += ["--kubeconfig", str(plane.access.kubeconfig), "--health-port", "0"]
    process = ServerProcess("scheduler", command, folder / "scheduler.log", dict(os.environ))
    try:
        yield psutil.Process(process.pid)
    finally:
        process.stop(grace=20)


@contextmanager
def _run_kube_scheduler(plane: ControlPlane, folder: Path) -> Generator[psutil.Process]:
    plane.start_scheduler()
    yield psutil.Process(plane.processes[0].pid)


def _get_usage(process: psutil.Process) -> tuple[float, float]:
    times = process.cpu_times()
    return times.user + times.system, process.memory_info().rss / 1e6


def _install_crds(plane: ControlPlane) -> None:
    install = ["-m", "kilonova.cli", "install", "--kubeconfig", str(plane.access.kubeconfig)]
    subprocess.run([sys.executable, *install], check=True, stdout=subprocess.DEVNULL)
