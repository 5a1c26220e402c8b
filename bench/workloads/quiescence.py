"""Whether a process is idle."""

import asyncio

import psutil

from bench.workloads.clusters import get_cpu_seconds
from bench.workloads.observer import TIMEOUT_SECONDS

_POLL_SECONDS = 0.5
_IDLE_CPU_SHARE = 0.06


async def wait_until_idle(process: psutil.Process, polls: int) -> None:
    """Return when the process has used almost no CPU in so many consecutive polls.

    Non-urgent statuses are written with a delay.
    """
    idle_polls = 0
    for _ in range(int(TIMEOUT_SECONDS / _POLL_SECONDS)):
        before = get_cpu_seconds(process)
        await asyncio.sleep(_POLL_SECONDS)
        idle_polls = (
            idle_polls + 1
            if get_cpu_seconds(process) - before < _IDLE_CPU_SHARE * _POLL_SECONDS
            else 0
        )
        if idle_polls == polls:
            return
    raise RuntimeError(f"the operator was not idle within {TIMEOUT_SECONDS} s")
