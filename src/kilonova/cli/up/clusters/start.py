"""Starts several clusters at the same time, each in a process of its own."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from functools import partial
from pathlib import Path

from kilonova.cli.up.background import detach_cluster
from kilonova.cli.up.clusters.directory import ClusterEntry, ClustersDirectory
from kilonova.cli.up.clusters.options import derive_options
from kilonova.cli.up.clusters.stop import stop_clusters
from kilonova.cli.up.clusters.wipe import wipe_several
from kilonova.cli.up.demo_setup import set_up_demo
from kilonova.cli.up.options import UpOptions
from kilonova.cli.up.progress import ProgressDisplay, Step
from kilonova.cli.up.welcome import Welcome
from kilonova.component.command.data_directory import is_clusters_directory
from kilonova.component.failure import CommandFailed
from kilonova.kube import KubeError, connect

_DEMO = Path(__file__).with_name("demo")


class StartedClusters:
    """What was started, and what ran already."""

    def __init__(
        self, directory: ClustersDirectory, started: dict[str, Welcome], running: tuple[str, ...]
    ) -> None:
        self.directory = directory
        self.started = started
        """The clusters that were started, by name."""
        self.running = running
        """The names of clusters that ran before."""


def start_clusters(
    options: UpOptions, directory: ClustersDirectory, *, wait: bool, lifeline: int | None = None
) -> StartedClusters:
    """Start the clusters that do not run yet; `CommandFailed` names those that cannot start, after
    those that could have been stopped again.

    With a `lifeline`, a pipe of which this process has the other end, they end when it is closed.
    """
    missing = [each for each in directory.clusters if not directory.is_running(each)]
    running = tuple(each.name for each in directory.clusters if each not in missing)
    if not missing:
        raise CommandFailed(
            f"all clusters of {directory.path} are running: see `kilonova status`, or stop them "
            "with `kilonova down`"
        )
    is_new = not is_clusters_directory(directory.path)
    directory.write()
    display = _Display([each.name for each in missing])
    try:
        with ThreadPoolExecutor(len(missing)) as threads:

            def start(cluster: ClusterEntry) -> Future[Welcome]:
                return threads.submit(
                    detach_cluster,
                    derive_options(options, directory, cluster),
                    wait=wait,
                    show=partial(display.show, cluster.name),
                    lifeline=lifeline,
                )

            # The first one's manager is to lead: people look for the fleet there.
            starts = {missing[0]: start(missing[0])}
            wait_for_all(starts.values())
            starts |= {each: start(each) for each in missing[1:]}
            failed = {
                each: error
                for each, started in starts.items()
                if isinstance(error := started.exception(), CommandFailed)
            }
        if failed:
            stop_clusters(directory, [each for each in missing if each not in failed])
            if is_new:
                wipe_several(directory.path)
            raise CommandFailed("; ".join(f"{each.name}: {why}" for each, why in failed.items()))
        welcomes = {each.name: started.result() for each, started in starts.items()}
    finally:
        display.clear()
    directory.write_kubeconfig()
    if options.demo and wait and {"operator", "scheduler"} <= {*options.components}:
        asyncio.run(_set_up_demo(directory))
    return StartedClusters(directory, welcomes, running)


async def _set_up_demo(directory: ClustersDirectory) -> None:
    """Create the demo in the first cluster, unless that was done before."""
    try:
        async with connect(directory.kubeconfig, directory.clusters[0].name) as client:
            await set_up_demo(client, "", (), _DEMO)
    except KubeError as error:  # rejected by a webhook or policy of the user
        print(f"kilonova: demo not set up: {error}", file=sys.stderr)


def run_clusters(
    options: UpOptions,
    directory: ClustersDirectory,
    report_started: Callable[[StartedClusters], None],
) -> None:
    """Start the clusters and run them until a signal; they also end when this process is killed."""
    stop = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: stop.set())
    read_end, write_end = os.pipe()
    try:
        started = start_clusters(options, directory, wait=True, lifeline=read_end)
        report_started(started)
        stop.wait()
    finally:
        os.close(read_end)
        os.close(write_end)
    print("Stopping.", flush=True)
    own = [each for each in directory.clusters if each.name in started.started]
    stop_clusters(directory, own)


class _Display:
    """The progress of all clusters: a line for each, with the step that it is at."""

    def __init__(self, names: Sequence[str]) -> None:
        self._display = ProgressDisplay() if sys.stderr.isatty() else None
        self._lines = {name: Step(name) for name in names}
        self._lock = threading.Lock()

    def show(self, name: str, steps: Sequence[Step]) -> None:
        if self._display is None:
            return
        going = next((each for each in steps if each.stage == "going"), None)
        note = "" if going is None else f"{going.name} {going.note}".strip()
        done = all(each.stage == "done" for each in steps)
        with self._lock:
            self._lines[name] = Step(name, "done" if done else "going", note)
            self._display.show(list(self._lines.values()))

    def clear(self) -> None:
        if self._display is not None:
            self._display.clear()
