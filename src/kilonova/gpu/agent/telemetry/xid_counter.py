"""Counts the XIDs of devices since the agent started, for metrics."""

from collections.abc import Iterable
from datetime import datetime

from kilonova.gpu.devices.model import EventKind, GpuEvent
from kilonova.gpu.exporter.model import XidCount


class XidCounter:
    """XIDs by device and code. A device reports few different ones, so none are dropped."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], XidCount] = {}

    @property
    def counts(self) -> tuple[XidCount, ...]:
        """What was counted, by device and code."""
        return tuple(each for _, each in sorted(self._counts.items()))

    def count(self, events: Iterable[GpuEvent], now: datetime) -> None:
        """Count the XIDs among events."""
        for each in events:
            if each.kind is not EventKind.XID:
                continue
            key = each.uuid, each.code
            before = self._counts[key].count if key in self._counts else 0
            self._counts[key] = XidCount(each.uuid, each.code, before + 1, now.timestamp())
