"""Events: aggregated and written asynchronously. Virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.client.client import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.events import CorrelatorOptions, EventRecorder, ObjectReference
from kilonova.kube.events.correlator import EventCorrelator, EventOccurrence
from kilonova.kube.observability.metrics import Metrics
from tests.kube.memory_api import MemoryApi, MemoryTransport

pytestmark = pytest.mark.looptime

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
POD = ObjectReference.to(PODS, "w-0", "team", "uid-1")
NODE = ObjectReference("v1", "Node", "n1", uid="uid-2")
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


class RecorderScenario:
    """A recorder, the server that it writes to, and its counters."""

    def __init__(self, **settings: Any) -> None:
        self.api = MemoryApi()
        self.link = MemoryTransport(self.api)
        self.metrics = Metrics()
        ids = count(1)
        self.recorder = EventRecorder(
            Client(self.link),
            "scheduler",
            instance="host-1",
            metrics=self.metrics,
            clock=now,
            wall=lambda: BEGIN + timedelta(seconds=now()),
            new_id=lambda: f"id{next(ids)}",
            **settings,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[EventRecorder]:
        task = asyncio.create_task(self.recorder.run())
        yield self.recorder
        self.recorder.stop()
        await task

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.api.objects.values())

    def dropped(self, reason: str) -> float:
        labels = {"reason": reason}
        name = "kilonova_events_dropped_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


async def test_events_within_a_second_are_listed_in_order():
    """Lists are sorted by name, and kubectl sorts by whole seconds."""
    scenario = RecorderScenario()
    reasons = [f"Reason{number}" for number in range(20)]
    async with scenario.running() as recorder:
        for number, reason in enumerate(reasons):
            recorder.event(POD, reason, "It happened")
            if number % 3 == 0:
                await asyncio.sleep(0.01)
    listed = sorted(scenario.events, key=lambda event: event["metadata"]["name"])
    assert {event["lastTimestamp"] for event in listed} == {"2026-05-01T00:00:00Z"}
    assert [event["reason"] for event in listed] == reasons


async def test_event_has_all_fields_that_kubectl_shows():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1", action="Binding")
    (event,) = scenario.events
    name = f"w-0.{int(BEGIN.timestamp()) * 10**9:016x}id1"
    assert scenario.api.writes[0][1] == f"/api/v1/namespaces/team/events/{name}"
    del event["metadata"]["resourceVersion"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "w-0",
            "namespace": "team",
            "uid": "uid-1",
        },
        "type": "Normal",
        "reason": "Bound",
        "message": "Placed on n1",
        "action": "Binding",
        "count": 1,
        "firstTimestamp": "2026-05-01T00:00:00Z",
        "lastTimestamp": "2026-05-01T00:00:00Z",
        "source": {"component": "scheduler"},
        "reportingComponent": "scheduler",
        "reportingInstance": "host-1",
    }


async def test_repeated_occurrence_is_counted_in_the_same_event():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        for _ in range(3):
            recorder.event(POD, "Failed", "No capacity", warning=True)
            await asyncio.sleep(10)
    (event,) = scenario.events
    assert (event["count"], event["type"]) == (3, "Warning")
    assert event["firstTimestamp"] == "2026-05-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-05-01T00:00:20Z"


async def test_burst_of_equal_occurrences_costs_one_request():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        for _ in range(1000):
            recorder.event(POD, "Failed", "No capacity")
    assert len(scenario.api.writes) == 1
    assert scenario.events[0]["count"] == 1000


async def test_different_reason_message_type_or_object_is_another_event():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        recorder.event(POD, "Failed", "No capacity")
        recorder.event(POD, "Failed", "No capacity", warning=True)
        recorder.event(POD, "Failed", "No light")
        recorder.event(POD, "Waits", "No capacity")
        recorder.event(NODE, "Failed", "No capacity")
    assert len(scenario.events) == 5
    paths = {path.rsplit("/", 2)[0] for path in scenario.api.objects}
    assert paths == {"/api/v1/namespaces/team", "/api/v1/namespaces/default"}


async def test_more_than_ten_similar_messages_are_aggregated():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        for i in range(15):
            recorder.event(POD, "Failed", f"No capacity on {i} nodes")
            await asyncio.sleep(1)
        recorder.event(POD, "Failed", "No capacity on 3 nodes")
    assert len(scenario.events) == 11
    folded = scenario.events[-1]
    assert folded["message"] == "(combined from similar events): No capacity on 14 nodes"
    assert folded["count"] == 5
    known = next(event for event in scenario.events if event["message"] == "No capacity on 3 nodes")
    assert known["count"] == 2, "a message that has its own event stays there"


async def test_aggregation_ends_after_ten_quiet_minutes():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        for i in range(12):
            recorder.event(POD, "Failed", f"{i}")
        await asyncio.sleep(601)
        recorder.event(POD, "Failed", "new")
    assert scenario.events[-1]["message"] == "new"


async def test_noisy_object_is_rate_limited_alone():
    scenario = RecorderScenario(
        options=CorrelatorOptions(burst=3, refill_seconds=60, max_similar=1000)
    )
    async with scenario.running() as recorder:
        for i in range(10):
            recorder.event(POD, "Failed", f"{i}")
        recorder.event(POD, "Died", "At last", warning=True)
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(60)
        recorder.event(POD, "Failed", "9")
    assert [event["message"] for event in scenario.events] == [
        "0",
        "1",
        "2",
        "At last",
        "Fine",
        "9",
    ]
    assert scenario.events[-1]["count"] == 2, "what was held back is still counted"
    assert scenario.dropped("rate_limited") == 7


async def test_full_buffer_drops_and_counts():
    scenario = RecorderScenario(max_pending=5)
    for i in range(8):
        scenario.recorder.event(ObjectReference.to(PODS, f"w-{i}", "team"), "Bound", "Placed")
    async with scenario.running():
        pass
    assert len(scenario.events) == 5
    assert scenario.dropped("buffer_full") == 3


async def test_events_wait_out_an_outage():
    scenario = RecorderScenario()
    scenario.link.cut = True
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(120)
        assert scenario.events == []
        scenario.link.cut = False
        await asyncio.sleep(20)
        assert len(scenario.events) == 2


async def test_stop_during_an_outage_does_not_hang():
    scenario = RecorderScenario()
    scenario.link.cut = True
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(1)
    assert now() <= 1 + 5
    assert scenario.dropped("stopped") == 2


async def test_hanging_server_delays_but_does_not_stop_events():
    scenario = RecorderScenario()
    scenario.link.to_server = 1e6
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(5)
        scenario.link.to_server = 0
        await asyncio.sleep(30)
        assert len(scenario.events) == 1


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid")])
async def test_rejected_event_is_dropped_and_later_ones_are_written(code, reason):
    scenario = RecorderScenario()
    scenario.api.refuse["POST"] = (code, reason)
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(1)
        scenario.api.refuse.clear()
        recorder.event(NODE, "Ready", "Fine")
    assert [event["message"] for event in scenario.events] == ["Fine"]
    assert scenario.dropped("rejected") == 1


async def test_expired_event_is_recreated_with_its_count():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        recorder.event(POD, "Failed", "No capacity")
        await asyncio.sleep(3700)
        scenario.api.objects.clear()
        recorder.event(POD, "Failed", "No capacity")
    assert [(e["count"], e["firstTimestamp"]) for e in scenario.events] == [
        (2, "2026-05-01T00:00:00Z")
    ]


async def test_create_with_lost_response_is_not_repeated():
    scenario = RecorderScenario()
    scenario.link.from_server = 60
    async with scenario.running() as recorder:
        recorder.event(POD, "Failed", "No capacity")
        await asyncio.sleep(5)
        scenario.link.from_server = 0
        await asyncio.sleep(60)
    assert len(scenario.events) == 1
    assert [method for method, _, _ in scenario.api.writes] == ["POST", "PATCH"]


async def test_long_texts_are_truncated_to_api_limits():
    scenario = RecorderScenario()
    async with scenario.running() as recorder:
        recorder.event(ObjectReference.to(PODS, "x" * 253, "team"), "R" * 200, "é" * 5000)
    (event,) = scenario.events
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["reason"].encode()) == 128
    assert len(event["message"].encode()) <= 1024


occurrences = st.builds(
    EventOccurrence,
    st.sampled_from([POD, NODE]),
    st.sampled_from(["Normal", "Warning"]),
    st.sampled_from(["A", "B"]),
    st.integers(0, 30).map(str),
)


@given(st.lists(st.tuples(occurrences, st.floats(0, 400)), max_size=200))
def test_no_occurrence_is_lost_from_the_counts_and_writes_stay_bounded(steps):
    limits = CorrelatorOptions()
    ids = count(1)
    correlator = EventCorrelator(limits, lambda: str(next(ids)))
    observed: dict[str, int] = {}
    time = 0.0
    writes: dict[ObjectReference, int] = {}
    for occurrence, pause in steps:
        time += pause
        series = correlator.record(occurrence, time, BEGIN)
        assert series.count == observed.get(series.name, 0) + 1
        observed[series.name] = series.count
        if correlator.can_write(series, time):
            writes[occurrence.regarding] = writes.get(occurrence.regarding, 0) + 1
    assert sum(observed.values()) == len(steps)
    for number in writes.values():
        assert number <= 2 * (limits.burst + time / limits.refill_seconds + 1)


async def test_events_wait_while_busy_up_to_a_limit():
    busy = True
    scenario = RecorderScenario(is_busy=lambda: busy)
    async with scenario.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(1)
        assert scenario.events == []
        busy = False
        await asyncio.sleep(0.2)
        assert len(scenario.events) == 1
        busy = True
        recorder.event(POD, "Moved", "Placed on n2")
        await asyncio.sleep(4.5)
        assert len(scenario.events) == 1
        await asyncio.sleep(1)
        assert len(scenario.events) == 2
        recorder.event(POD, "Ended", "Gone")
    assert len(scenario.events) == 3
