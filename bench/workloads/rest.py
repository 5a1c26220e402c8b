"""Whether a process has nothing more to do."""

import asyncio

import psutil

from bench.workloads.sight import PATIENCE_SECONDS
from bench.workloads.stages import cpu_seconds

_LOOK_SECONDS = 0.5
_SHARE = 0.06


async def come_to_rest(process: psutil.Process, looks: int) -> None:
    """Return when it has used next to no processor time at so many looks in a row.

    What does not press is written a while later.
    """
    quiet = 0
    for _ in range(int(PATIENCE_SECONDS / _LOOK_SECONDS)):
        before = cpu_seconds(process)
        await asyncio.sleep(_LOOK_SECONDS)
        quiet = quiet + 1 if cpu_seconds(process) - before < _SHARE * _LOOK_SECONDS else 0
        if quiet == looks:
            return
    raise RuntimeError(f"the operator did not come to rest in {PATIENCE_SECONDS} s")
