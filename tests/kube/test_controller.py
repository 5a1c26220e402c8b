"""Controllers: from a change in a store to a call of reconcile. Virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Backoff, Comparison, Conflict, Controller, Key, Reflector, Result, Watch
from tests.kube.wire import (
    PODS,
    Hang,
    Pause,
    Pod,
    Stream,
    Wire,
    added,
    bookmark,
    client_on,
    deleted,
    modified,
)

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


def pods(*steps: bytes | Pause) -> Reflector[Pod]:
    return Reflector(client_on(Wire([Stream(*steps, Hang())])), PODS)


def synced(version: int = 10) -> bytes:
    return bookmark(version, ends_initial_events=True)


class Calls:
    """A reconcile function that remembers its calls and does as it is told."""

    def __init__(self, act: Callable[[Key], Any] = lambda key: None, takes: float = 0) -> None:
        self.seen: list[tuple[float, str]] = []
        self.running: set[Key] = set()
        self.most_at_once = 0
        self._act = act
        self._takes = takes

    async def __call__(self, key: Key) -> Result | None:
        assert key not in self.running, "one call per key at a time"
        self.running.add(key)
        self.most_at_once = max(self.most_at_once, len(self.running))
        self.seen.append((now(), key[1]))
        try:
            await asyncio.sleep(self._takes)
            result = self._act(key)
            if isinstance(result, Exception):
                raise result
            return result
        finally:
            self.running.discard(key)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.seen]


@asynccontextmanager
async def at_work(controller: Controller, *reflectors: Reflector[Pod]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(part.run()) for part in (*reflectors, controller)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        failures = [task.exception() for task in tasks if not task.cancelled()]
        assert [failure for failure in failures if failure] == []


async def test_every_object_is_reconciled_and_again_when_it_changes() -> None:
    source = pods(added("a", 1) + added("b", 2), synced(), Pause(5), modified("a", 11))
    calls = Calls()
    async with at_work(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(10)
    assert calls.seen == [(0, "a"), (0, "b"), (5, "a")]


async def test_nothing_is_reconciled_before_all_caches_are_filled() -> None:
    quick, slow = pods(added("a", 1), synced()), pods(Pause(7), synced())
    calls = Calls()
    controller = Controller("pods", calls, [Watch(quick), Watch(slow, lambda pod: [])])
    async with at_work(controller, quick, slow):
        await asyncio.sleep(10)
    assert calls.seen == [(7, "a")]


async def test_a_controller_started_late_reconciles_what_is_there() -> None:
    source = pods(added("a", 1), synced())
    calls = Calls()
    async with at_work(Controller("early", Calls(), [Watch(source)]), source):
        await asyncio.sleep(3)
        async with at_work(Controller("late", calls, [Watch(source)])):
            await asyncio.sleep(3)
    assert calls.seen == [(3, "a")]


async def test_departures_then_changes_come_before_what_was_there_at_the_start() -> None:
    first = b"".join(added(name, 1) for name in "abcdef")
    source = pods(first, synced(), Pause(1.5), modified("e", 11) + deleted("f", 12))
    calls = Calls(takes=1)
    async with at_work(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(20)
    assert calls.names == ["a", "b", "f", "e", "c", "d"]


async def test_a_change_concerns_the_owner_before_and_after_it() -> None:
    def node(pod: Pod) -> list[Key]:
        return [("", pod.spec.node_name)] if pod.spec.node_name else []

    source = pods(added("a", 1), synced(), Pause(1), modified("a", 11, "n1"), Pause(1))
    source_moved = pods(added("a", 1, "n1"), synced(), Pause(1), modified("a", 11, "n2"))
    calls, moved = Calls(), Calls()
    async with at_work(Controller("nodes", calls, [Watch(source, node)]), source):
        await asyncio.sleep(5)
    async with at_work(Controller("nodes", moved, [Watch(source_moved, node)]), source_moved):
        await asyncio.sleep(5)
    assert calls.names == ["n1"]
    assert moved.names == ["n1", "n1", "n2"]


async def test_only_a_change_that_makes_a_difference_is_looked_at() -> None:
    def moved(old: Pod | None, new: Pod | None) -> list[Key]:
        places = [("", each.spec.node_name) if each else None for each in (old, new)]
        return [each for each in places if each is not None] if places[0] != places[1] else []

    changes = modified("a", 11, "n1") + modified("a", 12, "n2") + deleted("a", 13, "n2")
    source = pods(added("a", 1, "n1"), synced(), Pause(3), changes)
    early, late = Calls(), Calls()
    asleep = Controller("asleep", Calls(), [Comparison(source, moved)])
    async with at_work(Controller("early", early, [Comparison(source, moved)]), source):
        await asyncio.sleep(2)
        async with at_work(Controller("late", late, [Comparison(source, moved)])):
            await asyncio.sleep(5)
    assert early.seen == [(0, "n1"), (3, "n1"), (3, "n2")]
    assert late.seen == [(2, "n1"), (3, "n1"), (3, "n2")]
    assert len(asleep.queue) == 0, "who does not run collects nothing"


async def test_a_failing_reconcile_is_repeated_with_growing_delays() -> None:
    failures = iter([ValueError("one"), Conflict(409, "Conflict", "two", {}), None, OSError("x")])
    source = pods(added("a", 1), synced(), Pause(50), modified("a", 11))
    calls = Calls(lambda key: next(failures, None))
    controller = Controller(
        "pods", calls, [Watch(source)], backoff=Backoff(2, 60, jitter=lambda: 0.0)
    )
    async with at_work(controller, source):
        await asyncio.sleep(100)
    assert [when for when, _ in calls.seen] == [0, 2, 6, 50, 52]


async def test_a_reconcile_may_ask_to_be_called_again() -> None:
    answers = iter([Result(after=30), Result(after=5)])
    source = pods(added("a", 1), synced())
    calls = Calls(lambda key: next(answers, None))
    async with at_work(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(100)
    assert [when for when, _ in calls.seen] == [0, 30, 35]


async def test_workers_work_side_by_side_but_never_on_the_same_key() -> None:
    first = b"".join(added(name, 1) for name in "abcdef")
    source = pods(first, synced(), Pause(0.5), b"".join(modified(n, 11) for n in "abcdef"))
    calls = Calls(takes=1)
    async with at_work(Controller("pods", calls, [Watch(source)], workers=3), source):
        await asyncio.sleep(20)
    assert calls.most_at_once == 3
    assert len(calls.seen) == 9  # three were under way when all changed, three still waited


async def test_resync_reconciles_everything_now_and_then() -> None:
    source = pods(added("a", 1), synced())
    calls = Calls()
    controller = Controller("pods", calls, [Watch(source)], resync=600, jitter=lambda: 0.0)
    async with at_work(controller, source):
        await asyncio.sleep(1500)
    assert calls.seen == [(0, "a"), (600, "a"), (1200, "a")]


async def test_stopping_lets_calls_under_way_finish_and_drops_the_rest() -> None:
    source = pods(added("a", 1) + added("b", 2), synced())
    calls = Calls(takes=10)
    controller = Controller("pods", calls, [Watch(source)])
    reflecting = asyncio.create_task(source.run())
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(3)
    controller.stop()
    await running
    assert (now(), calls.names, calls.running) == (10, ["a"], set())
    reflecting.cancel()


async def test_a_controller_can_be_stopped_while_it_waits_for_its_caches() -> None:
    controller = Controller("pods", Calls(), [Watch(pods())])
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    controller.stop()
    await running
    assert now() == 1


async def test_instruments_are_told_how_it_went() -> None:
    measured: list[Any] = []

    class Noted:
        def queue_opened(self, controller: str, depth: Callable[[], int]) -> None:
            measured.append((controller, depth()))

        def reconciled(self, controller: str, outcome: str, seconds: float, waited: float) -> None:
            measured.append((controller, outcome, seconds, waited))

        def events_received(self, resource: str, count: int) -> None:
            measured.append((resource, count))

        def listed(self, resource: str, cause: str, objects: int) -> None:
            measured.append((resource, cause, objects))

        def watch_ended(self, resource: str, reason: str) -> None:
            measured.append((resource, reason))

    outcomes = iter([None, ValueError("no"), Result(after=900)])
    first = added("a", 1) + added("b", 2) + added("c", 3) + synced()
    wire = Wire([Stream(first, Pause(8), bookmark(11)), Stream(Hang())])
    source = Reflector(client_on(wire), PODS, instruments=Noted())
    calls = Calls(lambda key: next(outcomes, None), takes=2)
    controller = Controller(
        "pods", calls, [Watch(source)], instruments=Noted(), backoff=Backoff(100, 100)
    )
    async with at_work(controller, source):
        await asyncio.sleep(10)
    assert measured == [
        ("pods", 0),
        ("pods", "start", 3),
        ("pods", "success", 2, 0),
        ("pods", "error", 2, 2),
        ("pods", "requeued", 2, 4),
        ("pods", 1),
        ("pods", "closed"),
    ]


async def test_a_controller_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        Controller("pods", Calls(), [], workers=0)
