"""Rows: how long after the death of a leader another one leads, on real stores in real time.

The leaders run in a process that is killed; a standby of each waits in this process. What is
measured ends when the standby has claimed its epoch, and may decide.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.fleet.inputs import Inputs
from bench.fleet.leaders import fleet_timing
from bench.report import Quantity, Row
from kilonova.fleet.store import EndpointSource, FleetElection, FleetTerm

MARGIN_SECONDS = 2
"""How much longer than the lease it may take."""


def measure(inputs: Inputs) -> list[Row]:
    """With the state in one directory, and in three."""
    return [
        _measure_store(inputs, "a directory", lambda folder: str(folder / "a")),
        _measure_store(
            inputs,
            "two of three directories",
            lambda folder: ",".join(str(folder / name) for name in "abc"),
        ),
    ]


def _measure_store(inputs: Inputs, store: str, endpoint: Callable[[Path], str]) -> Row:
    with tempfile.TemporaryDirectory(prefix="kilonova-bench-") as folder:
        endpoints = [endpoint(Path(folder, str(number))) for number in range(inputs.takeovers)]
        seconds = asyncio.run(_measure_takeovers(inputs.lease_seconds, endpoints))
    title = (
        f"leader takeover, longest of {inputs.takeovers}, lease {inputs.lease_seconds} s, {store}"
    )
    return Row(Quantity(title, "s", "less", inputs.lease_seconds + MARGIN_SECONDS), max(seconds))


async def _measure_takeovers(lease_seconds: int, endpoints: list[str]) -> list[float]:
    command = [sys.executable, "-m", "bench.fleet.leaders", str(lease_seconds), *endpoints]
    leaders = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert leaders.stdout is not None
        line = await asyncio.to_thread(leaders.stdout.readline)
        if line.strip() != b"leading":
            raise RuntimeError(f"{command[:3]} ended without leading")
        standbys = [asyncio.create_task(_wait_to_lead(lease_seconds, each)) for each in endpoints]
        # Until each standby has seen a few renewals.
        await asyncio.sleep(3 * fleet_timing(lease_seconds).retry_period)
    finally:
        leaders.kill()
        leaders.wait()
    died = time.monotonic()
    return [at - died for at in await asyncio.gather(*standbys)]


async def _wait_to_lead(lease_seconds: int, endpoint: str) -> float:
    led_at = 0.0

    async def lead(term: FleetTerm) -> None:
        nonlocal led_at
        led_at = time.monotonic()

    source = EndpointSource(endpoint)
    await FleetElection(source, timing=fleet_timing(lease_seconds)).run(lead)
    return led_at
