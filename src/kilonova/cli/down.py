"""`kilonova down`: end the cluster of a data folder, and see that it is gone."""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path

from kilonova.cli.audience import ending_text
from kilonova.cli.failure import CommandFailed
from kilonova.cli.tables import counted
from kilonova.local.folder import Folder, Running

_PATIENCE = 30.0
_INTERVAL = 0.02


def stop_cluster(data: Path, *, wait: bool, keep_pods: bool, tell: Callable[[str], None]) -> str:
    """Ask the process on `data` to end, wait for it, and say what was done.

    `tell` hears meanwhile what it waits for.
    """
    folder = Folder(data)
    deadline = time.monotonic() + _PATIENCE
    running = _announced(folder, deadline)
    if running is None:
        return f"Nothing runs on {data}." if keep_pods else asyncio.run(_end_left(data))
    with _open_process(running.pid) as process:
        try:
            os.kill(running.pid, signal.SIGUSR1 if keep_pods else signal.SIGTERM)
        except ProcessLookupError:
            return f"Nothing runs on {data}."
        except PermissionError as error:
            raise CommandFailed(
                f"process {running.pid} on {data} belongs to another user"
            ) from error
        if not wait:
            return f"Asked process {running.pid} on {data} to stop."
        told = 0
        while folder.is_taken():
            ending = folder.ending()
            if ending is not None:
                # Their grace was asked for by whoever made them.
                left = ending.until - time.time()
                deadline = max(deadline, time.monotonic() + left + _PATIENCE)
                if ending.pods != told:
                    told = ending.pods
                    tell(ending_text(told, left))
            _pause(deadline, running.pid)
        if process is not None:
            select.select([process], [], [], max(0.0, deadline - time.monotonic()))
    return f"Stopped. The data stays in {data}."


async def _end_left(data: Path) -> str:
    """End pods of this machine whose cluster was killed, or stopped without them."""
    from kilonova.local.nodes.process.keeper.client import KeeperRuntime

    keeper = KeeperRuntime(data / "keeper")
    left = await keeper.running()
    if not left:
        return f"Nothing runs on {data}."
    await keeper.shutdown()
    containers = counted(left, "container")
    return f"No cluster runs on {data}; ended {containers} that one had left on this machine."


def _announced(folder: Folder, deadline: float) -> Running | None:
    """Who runs on the folder; one that is only starting has yet to say so."""
    while folder.is_taken():
        running = folder.running()
        if running is not None:
            return running
        _pause(deadline, None)
    return None


def _pause(deadline: float, pid: int | None) -> None:
    if time.monotonic() > deadline:
        who = f"process {pid}" if pid else "a process that has not said its number"
        raise CommandFailed(
            f"{who} has not stopped within {_PATIENCE:.0f} s: see its log; "
            "ending it by force loses nothing that was acknowledged"
        )
    time.sleep(_INTERVAL)


@contextlib.contextmanager
def _open_process(pid: int) -> Generator[int | None]:
    """A descriptor that becomes readable when the process ends, where there are such."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
