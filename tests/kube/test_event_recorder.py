"""Events: counted rather than repeated, written behind the caller's back. Virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.client import Client
from kilonova.kube.events import Limits, Recorder, Reference
from kilonova.kube.events.series import Correlator, Occurrence
from kilonova.kube.metrics import Metrics
from kilonova.kube.resource import plain
from tests.kube.memory_api import Link, MemoryApi

pytestmark = pytest.mark.looptime

PODS = plain("", "v1", "pods", "Pod", True)
POD = Reference.to(PODS, "w-0", "team", "uid-1")
NODE = Reference("v1", "Node", "n1", uid="uid-2")
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


class Scene:
    """A recorder, the server that it writes to, and its counters."""

    def __init__(self, **settings: Any) -> None:
        self.api = MemoryApi()
        self.link = Link(self.api)
        self.metrics = Metrics()
        ids = count(1)
        self.recorder = Recorder(
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
    async def running(self) -> AsyncGenerator[Recorder]:
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


async def test_events_of_one_second_are_listed_in_the_order_in_which_they_happened():
    """Lists are in the order of names, and what kubectl sorts by is whole seconds."""
    scene = Scene()
    reasons = [f"Reason{number}" for number in range(20)]
    async with scene.running() as recorder:
        for number, reason in enumerate(reasons):
            recorder.event(POD, reason, "It happened")
            if number % 3 == 0:
                await asyncio.sleep(0.01)
    listed = sorted(scene.events, key=lambda event: event["metadata"]["name"])
    assert {event["lastTimestamp"] for event in listed} == {"2026-05-01T00:00:00Z"}
    assert [event["reason"] for event in listed] == reasons


async def test_an_event_has_all_that_kubectl_shows():
    scene = Scene()
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1", action="Binding")
    (event,) = scene.events
    name = f"w-0.{int(BEGIN.timestamp()) * 10**9:016x}id1"
    assert scene.api.writes[0][1] == f"/api/v1/namespaces/team/events/{name}"
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


async def test_the_same_again_is_counted_in_the_same_event():
    scene = Scene()
    async with scene.running() as recorder:
        for _ in range(3):
            recorder.event(POD, "Failed", "No room", warning=True)
            await asyncio.sleep(10)
    (event,) = scene.events
    assert (event["count"], event["type"]) == (3, "Warning")
    assert event["firstTimestamp"] == "2026-05-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-05-01T00:00:20Z"


async def test_a_burst_of_the_same_costs_one_request():
    scene = Scene()
    async with scene.running() as recorder:
        for _ in range(1000):
            recorder.event(POD, "Failed", "No room")
    assert len(scene.api.writes) == 1
    assert scene.events[0]["count"] == 1000


async def test_another_reason_message_type_or_object_is_another_event():
    scene = Scene()
    async with scene.running() as recorder:
        recorder.event(POD, "Failed", "No room")
        recorder.event(POD, "Failed", "No room", warning=True)
        recorder.event(POD, "Failed", "No light")
        recorder.event(POD, "Waits", "No room")
        recorder.event(NODE, "Failed", "No room")
    assert len(scene.events) == 5
    paths = {path.rsplit("/", 2)[0] for path in scene.api.objects}
    assert paths == {"/api/v1/namespaces/team", "/api/v1/namespaces/default"}


async def test_similar_messages_beyond_ten_are_folded_into_one_event():
    scene = Scene()
    async with scene.running() as recorder:
        for i in range(15):
            recorder.event(POD, "Failed", f"No room on {i} nodes")
            await asyncio.sleep(1)
        recorder.event(POD, "Failed", "No room on 3 nodes")
    assert len(scene.events) == 11
    folded = scene.events[-1]
    assert folded["message"] == "(combined from similar events): No room on 14 nodes"
    assert folded["count"] == 5
    known = next(event for event in scene.events if event["message"] == "No room on 3 nodes")
    assert known["count"] == 2, "a message that has its own event stays there"


async def test_after_ten_quiet_minutes_messages_have_their_own_events_again():
    scene = Scene()
    async with scene.running() as recorder:
        for i in range(12):
            recorder.event(POD, "Failed", f"{i}")
        await asyncio.sleep(601)
        recorder.event(POD, "Failed", "new")
    assert scene.events[-1]["message"] == "new"


async def test_a_noisy_object_is_held_back_and_others_are_not():
    scene = Scene(limits=Limits(burst=3, refill=60, distinct=1000))
    async with scene.running() as recorder:
        for i in range(10):
            recorder.event(POD, "Failed", f"{i}")
        recorder.event(POD, "Died", "At last", warning=True)
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(60)
        recorder.event(POD, "Failed", "9")
    assert [event["message"] for event in scene.events] == ["0", "1", "2", "At last", "Fine", "9"]
    assert scene.events[-1]["count"] == 2, "what was held back is still counted"
    assert scene.dropped("rate") == 7


async def test_a_full_buffer_drops_and_counts():
    scene = Scene(capacity=5)
    for i in range(8):
        scene.recorder.event(Reference.to(PODS, f"w-{i}", "team"), "Bound", "Placed")
    async with scene.running():
        pass
    assert len(scene.events) == 5
    assert scene.dropped("full") == 3


async def test_an_outage_is_waited_out():
    scene = Scene()
    scene.link.cut = True
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(120)
        assert scene.events == []
        scene.link.cut = False
        await asyncio.sleep(20)
        assert len(scene.events) == 2


async def test_a_stop_during_an_outage_does_not_hang():
    scene = Scene()
    scene.link.cut = True
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        recorder.event(NODE, "Ready", "Fine")
        await asyncio.sleep(1)
    assert now() <= 1 + 5
    assert scene.dropped("stopped") == 2


async def test_a_server_that_hangs_does_not_stop_events_for_good():
    scene = Scene()
    scene.link.to_server = 1e6
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(5)
        scene.link.to_server = 0
        await asyncio.sleep(30)
        assert len(scene.events) == 1


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid")])
async def test_what_the_server_refuses_is_dropped_and_the_rest_goes_on(code, reason):
    scene = Scene()
    scene.api.refuse["POST"] = (code, reason)
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(1)
        scene.api.refuse.clear()
        recorder.event(NODE, "Ready", "Fine")
    assert [event["message"] for event in scene.events] == ["Fine"]
    assert scene.dropped("refused") == 1


async def test_an_event_that_the_server_forgot_is_made_again_with_its_count():
    scene = Scene()
    async with scene.running() as recorder:
        recorder.event(POD, "Failed", "No room")
        await asyncio.sleep(3700)
        scene.api.objects.clear()
        recorder.event(POD, "Failed", "No room")
    assert [(e["count"], e["firstTimestamp"]) for e in scene.events] == [
        (2, "2026-05-01T00:00:00Z")
    ]


async def test_a_create_whose_answer_was_lost_is_not_repeated():
    scene = Scene()
    scene.link.from_server = 60
    async with scene.running() as recorder:
        recorder.event(POD, "Failed", "No room")
        await asyncio.sleep(5)
        scene.link.from_server = 0
        await asyncio.sleep(60)
    assert len(scene.events) == 1
    assert [method for method, _, _ in scene.api.writes] == ["POST", "PATCH"]


async def test_long_texts_are_cut_to_what_the_api_takes():
    scene = Scene()
    async with scene.running() as recorder:
        recorder.event(Reference.to(PODS, "x" * 253, "team"), "R" * 200, "é" * 5000)
    (event,) = scene.events
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["reason"].encode()) == 128
    assert len(event["message"].encode()) <= 1024


occurrences = st.builds(
    Occurrence,
    st.sampled_from([POD, NODE]),
    st.sampled_from(["Normal", "Warning"]),
    st.sampled_from(["A", "B"]),
    st.integers(0, 30).map(str),
)


@given(st.lists(st.tuples(occurrences, st.floats(0, 400)), max_size=200))
def test_no_occurrence_is_lost_from_the_counts_and_writes_stay_bounded(steps):
    limits = Limits()
    ids = count(1)
    correlator = Correlator(limits, lambda: str(next(ids)))
    seen: dict[str, int] = {}
    time = 0.0
    writes: dict[Reference, int] = {}
    for occurrence, pause in steps:
        time += pause
        series = correlator.count(occurrence, time, BEGIN)
        assert series.count == seen.get(series.name, 0) + 1
        seen[series.name] = series.count
        if correlator.may_write(series, time):
            writes[occurrence.about] = writes.get(occurrence.about, 0) + 1
    assert sum(seen.values()) == len(steps)
    for number in writes.values():
        assert number <= 2 * (limits.burst + time / limits.refill + 1)


async def test_events_wait_while_there_is_more_important_to_write_but_not_for_long():
    busy = True
    scene = Scene(busy=lambda: busy)
    async with scene.running() as recorder:
        recorder.event(POD, "Bound", "Placed on n1")
        await asyncio.sleep(1)
        assert scene.events == []
        busy = False
        await asyncio.sleep(0.2)
        assert len(scene.events) == 1
        busy = True
        recorder.event(POD, "Moved", "Placed on n2")
        await asyncio.sleep(4.5)
        assert len(scene.events) == 1
        await asyncio.sleep(1)
        assert len(scene.events) == 2
        recorder.event(POD, "Ended", "Gone")
    assert len(scene.events) == 3
