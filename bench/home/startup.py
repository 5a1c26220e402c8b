"""Cold start: time until ready, and memory."""

import statistics
import time
from pathlib import Path

from bench.home.inputs import Inputs
from bench.home.servers import MemoryUsage, StartServer
from bench.report import Measurements, Quantity

READY = Quantity("ready, cold start", "s", target=1, beats_peer=True)
RSS = Quantity("memory at start (RSS)", "MB", target=100, beats_peer=True)
PSS = Quantity("memory at start (PSS)", "MB", beats_peer=True)


def measure(start: StartServer, folder: Path, inputs: Inputs) -> Measurements:
    """Medians over cold starts, timed from before the first process starts."""
    seconds: list[float] = []
    memory: list[MemoryUsage] = []
    for number in range(inputs.starts):
        fresh = folder / str(number)
        fresh.mkdir()
        start_time = time.perf_counter()
        with start(fresh) as server:
            seconds.append(time.perf_counter() - start_time)
            memory.append(server.measure_memory())
    return {
        READY: statistics.median(seconds),
        RSS: statistics.median(each.rss for each in memory),
        PSS: statistics.median(each.pss for each in memory),
    }
