"""From nothing to ready: how long, and how much memory it takes."""

import statistics
import time
from pathlib import Path

from bench.home.inputs import Inputs
from bench.home.servers import Memory, Start
from bench.report import Figures, Quantity

READY = Quantity("ready, from nothing", "s", aim=1, beats_peer=True)
RSS = Quantity("memory at start (RSS)", "MB", aim=100, beats_peer=True)
PSS = Quantity("memory at start (PSS)", "MB", beats_peer=True)


def measure(start: Start, folder: Path, inputs: Inputs) -> Figures:
    """Medians over fresh starts; the clock runs from before the first process starts."""
    seconds: list[float] = []
    memory: list[Memory] = []
    for number in range(inputs.starts):
        fresh = folder / str(number)
        fresh.mkdir()
        began = time.perf_counter()
        with start(fresh) as server:
            seconds.append(time.perf_counter() - began)
            memory.append(server.memory())
    return {
        READY: statistics.median(seconds),
        RSS: statistics.median(each.rss for each in memory),
        PSS: statistics.median(each.pss for each in memory),
    }
