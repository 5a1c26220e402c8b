"""Reads the gateways and servers of one service, once for each call."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from kilonova.api.serving import STATS_PORT, InferenceServiceSpec
from kilonova.serving.resources import Pod
from kilonova.serving.signals.http_reader import Address, MetricsReader, ReadFailed
from kilonova.serving.signals.model import ServiceSignals
from kilonova.serving.signals.readings.gateway_stats import STATS_PATH, parse_gateway_stats
from kilonova.serving.signals.readings.reading import Reading
from kilonova.serving.signals.readings.server_metrics import METRICS_PATH, parse_server_metrics
from kilonova.serving.signals.readings.window import GroupWindow
from kilonova.serving.signals.targets import Target, list_targets

_RETRY_SECONDS = 30.0
"""When a server that need not have metrics is asked again, after it did not answer."""
_NO_GATEWAY = "no gateway is ready"


class ServicePoll:
    """What is remembered of a service between two readings."""

    def __init__(self, reader: MetricsReader, stats_port: int = STATS_PORT) -> None:
        self._reader = reader
        self._stats_port = stats_port
        self._windows: dict[str, GroupWindow] = {}
        self._addresses: dict[str, Address] = {}
        self._retry_at: dict[str, float] = {}
        self.active_at: float | None = None
        """When there were requests last."""

    async def read(
        self, spec: InferenceServiceSpec, pods: Iterable[Pod], now: float
    ) -> ServiceSignals:
        """The signals at this time."""
        targets = list_targets(spec, pods, self._stats_port)
        self._forget_others(targets)
        due = [each for each in targets if self._retry_at.get(each.name, now) <= now]
        results = await asyncio.gather(*(self._read_target(each) for each in due))
        answers: list[tuple[Target, str]] = []
        problems: list[str] = []
        for target, result in zip(due, results, strict=True):
            if isinstance(result, str):
                answers.append((target, result))
            elif target.is_required:
                problems.append(f"{target.title}: {result}")
            else:
                self._retry_at[target.name] = now + _RETRY_SECONDS
        gateways = sum(not each.group for each in targets)
        if not gateways:
            problems.append(_NO_GATEWAY)
        readings = _parse_answers(answers, tuple(group.name for group in spec.servers))
        return self._build(
            spec,
            now,
            readings,
            tuple(problems),
            is_complete=0 < gateways == sum(not target.group for target, _ in answers),
        )

    def close(self) -> None:
        """Close all connections."""
        self._forget_others([])

    async def _read_target(self, target: Target) -> str | ReadFailed:
        path = METRICS_PATH if target.group else STATS_PATH
        try:
            return await self._reader.read(target.address, path)
        except ReadFailed as error:
            return error

    def _forget_others(self, targets: Sequence[Target]) -> None:
        current = {each.name: each.address for each in targets}
        for name, address in self._addresses.items():
            if current.get(name) != address:
                self._reader.forget(address)
                self._retry_at.pop(name, None)
        self._addresses = current
        names = frozenset(current)
        for window in self._windows.values():
            window.keep_targets(names)

    def _build(
        self,
        spec: InferenceServiceSpec,
        now: float,
        readings: dict[str, dict[str, Reading]],
        problems: tuple[str, ...],
        *,
        is_complete: bool,
    ) -> ServiceSignals:
        signals = ServiceSignals(now, problems=problems, is_complete=is_complete)
        for group in spec.servers:
            found = readings.get(group.name, {})
            window = self._windows.setdefault(group.name, GroupWindow())
            increment = window.put(now, found)
            figures = window.build_signals(now, found)
            signals.groups[group.name] = figures
            if figures.demand or figures.queued or (increment and not increment.is_empty):
                self.active_at = now
        return signals


def _parse_answers(
    answers: Iterable[tuple[Target, str]], groups: tuple[str, ...]
) -> dict[str, dict[str, Reading]]:
    """The readings of each group, by target."""
    readings: dict[str, dict[str, Reading]] = defaultdict(dict)
    for target, text in answers:
        if target.group:
            readings[target.group][target.name] = parse_server_metrics(text)
            continue
        for group, reading in parse_gateway_stats(text, groups).items():
            readings[group][target.name] = reading
    return readings
