"""Traces as a collector has them."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from tests.harness.otel_collector import OtelCollector, Span


@dataclass
class CollectedTraces:
    """What a collector got since this was made."""

    collector: OtelCollector
    _seen: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = {each.span_id for each in self.collector.read_spans()}

    def read(self) -> dict[str, list[Span]]:
        """The new spans, by trace."""
        traces: dict[str, list[Span]] = defaultdict(list)
        for span in self.collector.read_spans():
            if span.span_id not in self._seen:
                traces[span.trace_id].append(span)
        return traces

    async def wait_for(self, traces: int, services: frozenset[str]) -> dict[str, list[Span]]:
        """The new spans, once so many traces have spans of all these services."""
        async with asyncio.timeout(20):
            while True:
                found = self.read()
                complete = [
                    each
                    for each in found.values()
                    if services <= {span.service for span in each} and _find_root(each)
                ]
                if len(complete) >= traces:
                    return found
                await asyncio.sleep(0.1)


def list_ancestors(span: Span, trace: list[Span]) -> list[Span]:
    """The spans above one, from its parent up."""
    by_id = {each.span_id: each for each in trace}
    found: list[Span] = []
    while (parent := by_id.get(span.parent_id)) is not None:
        found.append(parent)
        span = parent
    return found


def _find_root(trace: list[Span]) -> Span | None:
    return next((each for each in trace if each.kind == "Server" and each.name == "ingress"), None)
