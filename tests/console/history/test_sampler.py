"""The history of series: sampled from changed objects, bounded, aligned."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kilonova.component.console import Measurement, MetricSeries, Series
from kilonova.console.history import rings
from kilonova.console.history.rings import HistoryQuery
from kilonova.console.history.sampler import SeriesSampler
from kilonova.console.history.tally import Tally
from kilonova.console.objects import Node
from kilonova.kube import Client, ConnectionFailed, InProcessTransport, Reply, Request, Store
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time
START = 1_800_000_000.0


async def refuse_request(request: Request) -> Reply:
    raise AssertionError(f"unexpected request for {request.path}")


NO_CLIENT = Client(InProcessTransport(refuse_request))
"""Series of objects send no requests."""


class SampledNodes:
    """Nodes whose taints are counted for the cluster, and for the zone."""

    def __init__(self, reduce: Any = "sum", *metrics: MetricSeries) -> None:
        self.measured = 0
        self.unreadable = False
        self.store: Store[Node] = Store(Node)
        self.store.has_synced = True
        series = Series(names=("taints",), table="nodes", measure=self._measure, reduce=reduce)
        start = asyncio.get_running_loop().time()
        self.sampler = SeriesSampler(
            NO_CLIENT,
            [Tally(series, self.store)],
            metrics,
            lambda _: self.unreadable,
            now=lambda: START + asyncio.get_running_loop().time() - start,
        )
        self.task = asyncio.create_task(self.sampler.run())

    def put(self, name: str, zone: str, taints: int) -> None:
        labels = {"topology.kubernetes.io/zone": zone}
        spec = {"taints": [{"key": f"t{at}", "effect": "NoSchedule"} for at in range(taints)]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.store.put(msgspec.convert(body, Node))

    def values(self, key: str = "", step: int = 10, name: str = "taints") -> list[float | None]:
        return self.sampler.history(HistoryQuery(step, [name], key)).values[name]

    def _measure(self, node: Node) -> Iterator[Measurement]:
        self.measured += 1
        if node.metadata.labels.zone == "malformed":
            raise OverflowError("malformed")
        yield Measurement("taints", len(node.spec.taints))
        yield Measurement("taints", len(node.spec.taints), node.metadata.labels.zone)


async def test_values_follow_added_changed_and_deleted_objects() -> None:
    nodes = SampledNodes()
    nodes.put("a", "east", 2)
    nodes.put("b", "west", 3)
    await asyncio.sleep(1)
    nodes.put("a", "east", 1)
    await asyncio.sleep(10)
    nodes.put("a", "west", 4)
    await asyncio.sleep(10)
    nodes.store.remove(("", "b"))
    nodes.store.remove(("", "a"))
    await asyncio.sleep(10)
    assert nodes.values() == [5, 4, 7, 0]
    assert nodes.values("east") == [2, 1, 0, 0]
    assert nodes.values("west") == [3, 3, 7, 0]
    assert nodes.values("north") == [0, 0, 0, 0]
    assert nodes.values(step=60) == [4]


async def test_sum_is_zero_before_an_object_counted() -> None:
    nodes = SampledNodes()
    nodes.put("a", "east", 2)
    await asyncio.sleep(21)
    nodes.put("b", "west", 3)
    await asyncio.sleep(10)
    assert nodes.values("west") == [0, 0, 0, 3]
    assert nodes.values("west", step=60) == [3]


async def test_keys_with_the_greatest_values_are_returned_together() -> None:
    nodes = SampledNodes()
    for number in range(10):
        nodes.put(f"n{number}", f"zone-{number}", number)
    await asyncio.sleep(1)
    nodes.put("n9", "zone-9", 0)
    await asyncio.sleep(10)
    history = nodes.sampler.history(HistoryQuery(10, by_key="taints"))
    assert list(history.by_key) == [f"zone-{number}" for number in range(2, 9)]
    assert history.by_key["zone-8"] == [8, 8]
    assert history.values == {}


async def test_only_changed_objects_are_measured() -> None:
    nodes = SampledNodes()
    for number in range(600):
        nodes.put(f"n{number}", "east", 1)
    await asyncio.sleep(1)
    assert nodes.measured == 600
    await asyncio.sleep(3600)
    assert nodes.measured == 600
    for _ in range(100):
        nodes.put("n7", "east", 2)
    await asyncio.sleep(10)
    assert nodes.measured == 601
    assert nodes.values()[-1] == 601


async def test_mean_is_unknown_without_objects() -> None:
    nodes = SampledNodes("mean")
    nodes.put("a", "east", 2)
    nodes.put("b", "east", 4)
    await asyncio.sleep(1)
    nodes.store.remove(("", "a"))
    nodes.store.remove(("", "b"))
    await asyncio.sleep(10)
    assert nodes.values() == [3, None]
    assert nodes.values("north") == [None, None]


async def test_unreadable_table_is_a_gap() -> None:
    nodes = SampledNodes()
    nodes.put("a", "east", 2)
    await asyncio.sleep(1)
    nodes.unreadable = True
    await asyncio.sleep(10)
    nodes.unreadable = False
    await asyncio.sleep(10)
    assert nodes.values() == [2, None, 2]


async def test_series_begins_when_its_table_is_known() -> None:
    nodes = SampledNodes()
    nodes.store.has_synced = False
    await asyncio.sleep(21)
    assert nodes.values() == []
    nodes.put("a", "east", 2)
    nodes.store.has_synced = True
    await asyncio.sleep(10)
    assert nodes.values() == [2]
    history = nodes.sampler.history(HistoryQuery(10, ["taints"]))
    assert (history.start, history.step) == (int(START) + 30, 10)


async def test_malformed_object_does_not_count() -> None:
    nodes = SampledNodes()
    nodes.put("a", "east", 2)
    nodes.put("b", "malformed", 2)
    await asyncio.sleep(1)
    assert nodes.values() == [2]


async def test_rings_are_limited_and_those_of_the_past_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rings, "MAX_RINGS", 3)
    nodes = SampledNodes()
    nodes.put("a", "east", 1)
    nodes.put("b", "west", 2)
    nodes.put("c", "north", 3)
    await asyncio.sleep(1)
    assert nodes.values("north") == [0]
    nodes.store.remove(("", "a"))
    await asyncio.sleep(20)
    nodes.put("c", "north", 4)
    await asyncio.sleep(10)
    assert nodes.values("north")[-1] == 4
    assert nodes.values("west")[-1] == 2
    assert nodes.values() == [6, 5, 5, 6]


@pytest.mark.parametrize(
    ("name", "step", "problem"),
    [("taint", 10, "unknown series 'taint': want one of taints"), ("taints", 7, "step is 7")],
)
async def test_unknown_series_or_step_is_rejected(name: str, step: int, problem: str) -> None:
    nodes = SampledNodes()
    with pytest.raises(ValueError, match=problem):
        nodes.sampler.history(HistoryQuery(step, [name]))


async def test_metric_series_is_read_as_often_as_it_declares() -> None:
    reads = 0

    async def read(_: Client) -> list[Measurement]:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise ConnectionFailed("refused")
        if reads == 4:
            raise LookupError("a defect")
        if reads == 5:
            await asyncio.sleep(3600)
        return [Measurement("requests", reads), Measurement("requests", 2 * reads, "east")]

    nodes = SampledNodes("sum", MetricSeries(names=("requests",), read=read, seconds=20))
    nodes.put("a", "east", 2)
    await asyncio.sleep(39)
    assert nodes.values(name="requests") == [1, 1, 2, None]
    assert nodes.values("east", name="requests") == [2, 2, 4, None]
    await asyncio.sleep(80)
    assert reads == 6
    known = nodes.values(name="requests")
    # The reads at 40, 60 and 80 seconds failed; other series are not affected.
    assert (known[2], known[4], known[6], known[8], known[10]) == (2, None, None, None, 6)
    assert set(nodes.values()) == {2}


def test_metric_series_with_an_odd_interval_is_rejected() -> None:
    async def read(_: Client) -> list[Measurement]:
        return []

    with pytest.raises(ValueError, match="series x: seconds is 7: want 10, 20, 30, 40, 50 or 60"):
        MetricSeries(names=("x",), read=read, seconds=7)
