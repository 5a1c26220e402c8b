"""Collects the telemetry of a node: often while something runs, seldom while nothing does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kilonova.api.gpu.metrics import GpuReading
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.agent.telemetry.windows import WindowAggregator
from kilonova.gpu.devices.backend import TelemetrySource
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory
from kilonova.kube.observability.structured_logging import get_logger

BUSY_SECONDS = 2.0
IDLE_SECONDS = 30.0
_GROWTH = 1.5
_STEADY_SHARE = 0.05
"""A change of utilisation below this counts as none."""

_log = get_logger(__name__)


def next_interval(
    interval: float, before: Sequence[GpuReading], after: Sequence[GpuReading]
) -> float:
    """The interval until the next sample: short while anything changes, growing while nothing does,
    and at most five times the shortest while anything runs."""
    old = {each.index: each.utilisation or 0.0 for each in before}
    changes = [
        abs((each.utilisation or 0.0) - old.get(each.index, 0.0)) > _STEADY_SHARE for each in after
    ]
    if any(changes) or len(before) != len(after):
        return BUSY_SECONDS
    is_busy = any(each.utilisation for each in after)
    return min(interval * _GROWTH, 5 * BUSY_SECONDS if is_busy else IDLE_SECONDS)


class TelemetryCollector:
    """Samples until cancelled; `wake` makes the next sample happen soon. A runnable.

    `now` is monotonic, in seconds; `observe` sees every sample.
    """

    name = "gpu telemetry"

    def __init__(
        self,
        source: TelemetrySource,
        inventory: Callable[[], NodeInventory | None],
        *,
        now: Callable[[], float],
        call: Callable[
            [Callable[[], Sequence[DeviceTelemetry]]], Awaitable[Sequence[DeviceTelemetry]]
        ] = asyncio.to_thread,
        observe: Callable[[Sequence[DeviceTelemetry]], None] = lambda samples: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._inventory = inventory
        self.now = now
        self.sleep = sleep
        self._call = call
        self._observe = observe
        self._wake = asyncio.Event()
        self._failure = ""
        self._streams: set[WindowAggregator] = set()
        self.samples: Sequence[DeviceTelemetry] = ()
        """The last samples."""
        self.readings: tuple[GpuReading, ...] = ()
        self.sampled: float | None = None
        """When they were taken, by `now`."""

    def wake(self) -> None:
        """Something has changed, such as a pod that starts."""
        self._wake.set()

    def open_stream(self) -> WindowAggregator:
        """An aggregator that gets all samples from now on."""
        stream = WindowAggregator()
        for each in self.samples:
            stream.add(each, self.now())
        self._streams.add(stream)
        self.wake()
        return stream

    def close_stream(self, stream: WindowAggregator) -> None:
        """The aggregator gets no more samples."""
        self._streams.discard(stream)

    async def run(self) -> None:
        interval = BUSY_SECONDS
        while True:
            before = self.readings
            await self._sample()
            interval = next_interval(interval, before, self.readings)
            self._wake.clear()
            try:
                async with asyncio.timeout(interval):
                    await self._wake.wait()
                interval = BUSY_SECONDS
            except TimeoutError:
                continue

    async def _sample(self) -> None:
        inventory = self._inventory()
        if inventory is None:
            return
        try:
            samples = await self._call(self._source.read_telemetry)
        except GpuError as error:
            if str(error) != self._failure:
                _log.warning("telemetry not read, will retry", error=str(error))
            self._failure = str(error)
            return
        self._failure = ""
        now = self.now()
        for stream in self._streams:
            for each in samples:
                stream.add(each, now)
        self.samples, self.readings = samples, build_readings(inventory, samples)
        self.sampled = now
        self._observe(samples)
