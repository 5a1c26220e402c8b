"""The three who place pods, each on a server of its own."""

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
from bench.schedulerapi.inputs import Inputs
from bench.schedulerapi.scene import GANGS, NAMESPACE, all_of, furnish, gang, pod, watched
from tests.harness.controlplane import ControlPlane
from tests.harness.process import ServerProcess

_OURS = "kilonova-scheduler"
_THEIRS = "default-scheduler"

Begin = Callable[[ControlPlane, Path], AbstractContextManager[psutil.Process]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How fast a scheduler was, and what it used."""

    rate: float
    cpu: float
    memory: float


def measure(inputs: Inputs, folder: Path, with_peer: bool) -> list[Row]:
    """Pods a second, beside kube-scheduler's and plain bindings."""
    bare = _bare(inputs, folder / "bare")
    ours = _placed(inputs, folder / "ours", _OURS, _our_scheduler)
    size = f"{inputs.pods:,} pods on {inputs.nodes:,} nodes"
    share = Row(Quantity("of what plain bindings reach", "%", "more", 90), 100 * ours.rate / bare)
    placed = Quantity(f"placed, {size}", "pods/s", "more")
    gang_row = _gang(inputs, folder / "gang")
    if not with_peer:
        return [Row(placed, ours.rate), share, gang_row]
    theirs = _placed(inputs, folder / "theirs", _THEIRS, _kube_scheduler)
    return [
        Row(placed, ours.rate, theirs.rate),
        share,
        Row(Quantity("times kube-scheduler's rate", "×", "more", 4), ours.rate / theirs.rate),
        Row(Quantity("processor time", "s"), ours.cpu, theirs.cpu),
        Row(Quantity("memory", "MB"), ours.memory, theirs.memory),
        gang_row,
    ]


def _bare(inputs: Inputs, folder: Path) -> float:
    with ControlPlane.start(folder, durable=True) as plane:

        async def play() -> float:
            async with watched(plane.access.kubeconfig) as (client, sight):
                await furnish(
                    client,
                    inputs.nodes,
                    lambda index: pod(f"pod-{index}", "nobody"),
                    inputs.pods,
                    inputs.connections,
                )
                calls = (
                    client.bind(f"pod-{index}", NAMESPACE, f"node-{index % inputs.nodes:05}")
                    for index in range(inputs.pods)
                )
                await all_of(calls, inputs.connections)
                return await sight.seconds_of(inputs.pods)

        return inputs.pods / asyncio.run(play())


def _placed(inputs: Inputs, folder: Path, scheduler: str, begin: Begin) -> Outcome:
    with ControlPlane.start(folder, durable=True) as plane:
        _install(plane)

        async def play() -> Outcome:
            async with watched(plane.access.kubeconfig) as (client, sight):
                await furnish(
                    client,
                    inputs.nodes,
                    lambda index: pod(f"pod-{index}", scheduler),
                    inputs.pods,
                    inputs.connections,
                )
                loop = asyncio.get_running_loop()
                running = begin(plane, folder)
                process = await loop.run_in_executor(None, running.__enter__)
                try:
                    seconds = await sight.seconds_of(inputs.pods)
                    return Outcome(inputs.pods / seconds, *_used(process))
                finally:
                    running.__exit__(None, None, None)

        return asyncio.run(play())


def _gang(inputs: Inputs, folder: Path) -> Row:
    """A gang that is complete when the scheduler sees its last pod."""
    names = [f"worker-{index}" for index in range(inputs.gang)]
    with ControlPlane.start(folder, durable=True) as plane:
        _install(plane)

        async def play() -> float:
            async with watched(plane.access.kubeconfig) as (client, sight):
                await furnish(
                    client,
                    inputs.nodes,
                    lambda index: pod(names[index], _OURS, {"grove.io/podgang": "big"}),
                    inputs.gang,
                    inputs.connections,
                )
                loop = asyncio.get_running_loop()
                running = _our_scheduler(plane, folder)
                await loop.run_in_executor(None, running.__enter__)
                try:
                    await client.create(GANGS, gang("big", names, inputs.gang), NAMESPACE)
                    return await sight.seconds_of(inputs.gang)
                finally:
                    running.__exit__(None, None, None)

        seconds = asyncio.run(play())
    return Row(
        Quantity(f"a gang of {inputs.gang:,} pods bound", "pods/s", "more"), inputs.gang / seconds
    )


@contextmanager
def _our_scheduler(plane: ControlPlane, folder: Path) -> Generator[psutil.Process]:
    command = [sys.executable, "-m", "kilonova.cli", "run", "scheduler", "--no-leader-elect"]
    command += ["--kubeconfig", str(plane.access.kubeconfig), "--health-port", "0"]
    process = ServerProcess("scheduler", command, folder / "scheduler.log", dict(os.environ))
    try:
        yield psutil.Process(process.pid)
    finally:
        process.stop(grace=20)


@contextmanager
def _kube_scheduler(plane: ControlPlane, folder: Path) -> Generator[psutil.Process]:
    plane.start_scheduler()
    yield psutil.Process(plane.processes[0].pid)


def _used(process: psutil.Process) -> tuple[float, float]:
    times = process.cpu_times()
    return times.user + times.system, process.memory_info().rss / 1e6


def _install(plane: ControlPlane) -> None:
    install = ["-m", "kilonova.cli", "install", "--kubeconfig", str(plane.access.kubeconfig)]
    subprocess.run([sys.executable, *install], check=True, stdout=subprocess.DEVNULL)
