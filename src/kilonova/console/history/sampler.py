"""Samples all series into rings: those of objects every ten seconds, others as they declare.

Only objects that changed since the last sample are measured.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from kilonova.component.console import MetricSeries
from kilonova.console.history.ring import RESOLUTIONS
from kilonova.console.history.rings import HistoryQuery, SeriesHistory, SeriesRings
from kilonova.console.history.tally import Tally
from kilonova.kube import Client, KubeError
from kilonova.kube.observability.structured_logging import get_logger

_SAMPLE_SECONDS = RESOLUTIONS[0].step
_READ_TIMEOUT_SECONDS = 10.0

log = get_logger(__name__)


class SeriesSampler:
    """The history of series. A runnable.

    `is_unreadable` indicates whether a table cannot be read at the moment: its values are then
    unknown.
    """

    name = "history of series"

    def __init__(
        self,
        client: Client,
        tallies: Iterable[Tally],
        metrics: Iterable[MetricSeries] = (),
        is_unreadable: Callable[[str], bool] = lambda _: False,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._tallies = tuple(tallies)
        self._metrics = tuple(metrics)
        self._is_unreadable = is_unreadable
        self._now = now
        sums = [
            name
            for each in self._tallies
            if each.series.reduce == "sum"
            for name in each.series.names
        ]
        names = [name for each in self._tallies for name in each.series.names]
        names += [name for each in self._metrics for name in each.names]
        self._rings = SeriesRings(names, sums)

    async def run(self) -> None:
        """Sample until cancelled."""
        stops = [each.follow() for each in self._tallies]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._sample_objects())
                for each in self._metrics:
                    tasks.create_task(self._read_metrics(each))
        finally:
            for stop in stops:
                stop()

    def history(self, query: HistoryQuery) -> SeriesHistory:
        """The history of series; `ValueError` for an unknown name or resolution."""
        return self._rings.history(query, self._now())

    async def _sample_objects(self) -> None:
        while True:
            at = self._now()
            for tally in self._tallies:
                if not tally.is_known:
                    continue
                if self._is_unreadable(tally.series.table):
                    self._rings.record_unknown(tally.series.names, at)
                    continue
                await tally.update()
                self._rings.record(tally.series.names, dict(tally.values()), at)
            await self._sleep_until_next(_SAMPLE_SECONDS)

    async def _read_metrics(self, series: MetricSeries) -> None:
        has_failed = False
        while True:
            try:
                async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
                    measured = list(await series.read(self._client))
                values = {(each.series, each.key): each.value for each in measured}
                self._rings.record(series.names, values, self._now())
            except (KubeError, TimeoutError, OSError) as error:
                log.debug("metrics not available", series=series.names, error=str(error))
                self._rings.record_unknown(series.names, self._now())
            except Exception:
                # A defect of one component must not end the console.
                if not has_failed:
                    log.exception("metrics not read: their source failed", series=series.names)
                has_failed = True
                self._rings.record_unknown(series.names, self._now())
            await self._sleep_until_next(series.seconds)

    async def _sleep_until_next(self, step: int) -> None:
        await asyncio.sleep(step - self._now() % step)
