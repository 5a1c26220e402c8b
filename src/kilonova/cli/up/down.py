"""`kilonova down`: stops the cluster of a data directory and waits for it."""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path

from kilonova.cli.up.reporter import pod_shutdown_text
from kilonova.component.command.output.formats import pluralize
from kilonova.component.failure import CommandFailed
from kilonova.local.data_directory import SHIM_DIRECTORY, DataDirectory, RunningProcess

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.02


def stop_cluster(
    data: Path, *, wait: bool, keep_pods: bool, report_progress: Callable[[str], None]
) -> str:
    """Signal the cluster's process, wait for it, and return what was done.

    `report_progress` receives messages while pods terminate.
    """
    directory = DataDirectory(data)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    running = _await_running(directory, deadline)
    if running is None:
        if keep_pods:
            return f"No cluster is running in {data}."
        return asyncio.run(_end_orphaned_pods(data))
    with _open_pidfd(running.pid) as process:
        try:
            os.kill(running.pid, signal.SIGUSR1 if keep_pods else signal.SIGTERM)
        except ProcessLookupError:
            return f"No cluster is running in {data}."
        except PermissionError as error:
            raise CommandFailed(
                f"process {running.pid} of {data} belongs to another user"
            ) from error
        if not wait:
            return f"Asked process {running.pid} of {data} to stop."
        reported = 0
        while directory.is_locked():
            stopping = directory.read_stopping_record()
            if stopping is not None:
                # Pods get their grace period, however long it is.
                remaining = stopping.until - time.time()
                deadline = max(deadline, time.monotonic() + remaining + _TIMEOUT_SECONDS)
                if stopping.pods != reported:
                    reported = stopping.pods
                    report_progress(pod_shutdown_text(reported, remaining))
            _wait_or_fail(deadline, running.pid)
        if process is not None:
            select.select([process], [], [], max(0.0, deadline - time.monotonic()))
    return f"Stopped. The data is kept in {data}."


async def _end_orphaned_pods(data: Path) -> str:
    """Stop containers on this machine whose cluster was killed, or stopped without them."""
    from kilonova.local.processnode.cri.client import ShimRuntime

    runtime = ShimRuntime(data / SHIM_DIRECTORY)
    orphans = await runtime.count_running()
    if not orphans:
        return f"No cluster is running in {data}."
    await runtime.shutdown()
    containers = pluralize(orphans, "container")
    return f"No cluster is running in {data}; stopped {containers} left by an earlier one."


def _await_running(directory: DataDirectory, deadline: float) -> RunningProcess | None:
    """The process that holds the directory; waits for the record of one that is starting."""
    while directory.is_locked():
        running = directory.read_running_record()
        if running is not None:
            return running
        _wait_or_fail(deadline, None)
    return None


def _wait_or_fail(deadline: float, pid: int | None) -> None:
    if time.monotonic() > deadline:
        process = f"process {pid}" if pid else "the process, which has not recorded its pid,"
        raise CommandFailed(
            f"{process} has not stopped within {_TIMEOUT_SECONDS:.0f} s: see its log; "
            "killing it loses no acknowledged write"
        )
    time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _open_pidfd(pid: int) -> Generator[int | None]:
    """A descriptor that becomes readable when the process ends; None if not supported."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
