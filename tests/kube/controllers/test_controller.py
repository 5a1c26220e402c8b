"""Controllers: from a change in a store to a call of reconcile. Virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Backoff, ChangeWatch, Conflict, Controller, Key, Reflector, Result, Watch
from tests.kube.scripted_transport import (
    PODS,
    HangForever,
    Pause,
    Pod,
    ScriptedTransport,
    Stream,
    added,
    bookmark,
    client_over,
    deleted,
    modified,
)

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


def pod_reflector(*steps: bytes | Pause) -> Reflector[Pod]:
    return Reflector(client_over(ScriptedTransport([Stream(*steps, HangForever())])), PODS)


def end_of_initial_events(version: int = 10) -> bytes:
    return bookmark(version, ends_initial_events=True)


class RecordingReconciler:
    """A reconcile function that records its calls, with scripted results."""

    def __init__(self, act: Callable[[Key], Any] = lambda key: None, duration: float = 0) -> None:
        self.seen: list[tuple[float, str]] = []
        self.running: set[Key] = set()
        self.most_at_once = 0
        self._act = act
        self._takes = duration

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
async def running_controller(
    controller: Controller, *reflectors: Reflector[Pod]
) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(part.run()) for part in (*reflectors, controller)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        failures = [task.exception() for task in tasks if not task.cancelled()]
        assert [failure for failure in failures if failure] == []


async def test_objects_are_reconciled_initially_and_on_change() -> None:
    source = pod_reflector(
        added("a", 1) + added("b", 2), end_of_initial_events(), Pause(5), modified("a", 11)
    )
    calls = RecordingReconciler()
    async with running_controller(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(10)
    assert calls.seen == [(0, "a"), (0, "b"), (5, "a")]


async def test_nothing_is_reconciled_before_all_caches_have_synced() -> None:
    quick, slow = (
        pod_reflector(added("a", 1), end_of_initial_events()),
        pod_reflector(Pause(7), end_of_initial_events()),
    )
    calls = RecordingReconciler()
    controller = Controller("pods", calls, [Watch(quick), Watch(slow, lambda pod: [])])
    async with running_controller(controller, quick, slow):
        await asyncio.sleep(10)
    assert calls.seen == [(7, "a")]


async def test_controller_started_late_reconciles_existing_objects() -> None:
    source = pod_reflector(added("a", 1), end_of_initial_events())
    calls = RecordingReconciler()
    async with running_controller(
        Controller("early", RecordingReconciler(), [Watch(source)]), source
    ):
        await asyncio.sleep(3)
        async with running_controller(Controller("late", calls, [Watch(source)])):
            await asyncio.sleep(3)
    assert calls.seen == [(3, "a")]


async def test_deletions_and_changes_precede_the_initial_list() -> None:
    first = b"".join(added(name, 1) for name in "abcdef")
    source = pod_reflector(
        first, end_of_initial_events(), Pause(1.5), modified("e", 11) + deleted("f", 12)
    )
    calls = RecordingReconciler(duration=1)
    async with running_controller(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(20)
    assert calls.names == ["a", "b", "f", "e", "c", "d"]


async def test_change_enqueues_old_and_new_owner() -> None:
    def node(pod: Pod) -> list[Key]:
        return [("", pod.spec.node_name)] if pod.spec.node_name else []

    source = pod_reflector(
        added("a", 1), end_of_initial_events(), Pause(1), modified("a", 11, "n1"), Pause(1)
    )
    source_moved = pod_reflector(
        added("a", 1, "n1"), end_of_initial_events(), Pause(1), modified("a", 11, "n2")
    )
    calls, moved = RecordingReconciler(), RecordingReconciler()
    async with running_controller(Controller("nodes", calls, [Watch(source, node)]), source):
        await asyncio.sleep(5)
    async with running_controller(
        Controller("nodes", moved, [Watch(source_moved, node)]), source_moved
    ):
        await asyncio.sleep(5)
    assert calls.names == ["n1"]
    assert moved.names == ["n1", "n1", "n2"]


async def test_change_watch_enqueues_only_mapped_changes() -> None:
    def moved(old: Pod | None, new: Pod | None) -> list[Key]:
        positions = [("", each.spec.node_name) if each else None for each in (old, new)]
        return (
            [each for each in positions if each is not None] if positions[0] != positions[1] else []
        )

    changes = modified("a", 11, "n1") + modified("a", 12, "n2") + deleted("a", 13, "n2")
    source = pod_reflector(added("a", 1, "n1"), end_of_initial_events(), Pause(3), changes)
    early, late = RecordingReconciler(), RecordingReconciler()
    asleep = Controller("asleep", RecordingReconciler(), [ChangeWatch(source, moved)])
    async with running_controller(Controller("early", early, [ChangeWatch(source, moved)]), source):
        await asyncio.sleep(2)
        async with running_controller(Controller("late", late, [ChangeWatch(source, moved)])):
            await asyncio.sleep(5)
    assert early.seen == [(0, "n1"), (3, "n1"), (3, "n2")]
    assert late.seen == [(2, "n1"), (3, "n1"), (3, "n2")]
    assert len(asleep.queue) == 0, "who does not run collects nothing"


async def test_failing_reconcile_is_retried_with_backoff() -> None:
    failures = iter([ValueError("one"), Conflict(409, "Conflict", "two", {}), None, OSError("x")])
    source = pod_reflector(added("a", 1), end_of_initial_events(), Pause(50), modified("a", 11))
    calls = RecordingReconciler(lambda key: next(failures, None))
    controller = Controller(
        "pods", calls, [Watch(source)], backoff=Backoff(2, 60, jitter=lambda: 0.0)
    )
    async with running_controller(controller, source):
        await asyncio.sleep(100)
    assert [when for when, _ in calls.seen] == [0, 2, 6, 50, 52]


async def test_reconcile_may_requeue_after_a_delay() -> None:
    responses = iter([Result(requeue_after=30), Result(requeue_after=5)])
    source = pod_reflector(added("a", 1), end_of_initial_events())
    calls = RecordingReconciler(lambda key: next(responses, None))
    async with running_controller(Controller("pods", calls, [Watch(source)]), source):
        await asyncio.sleep(100)
    assert [when for when, _ in calls.seen] == [0, 30, 35]


async def test_workers_run_concurrently_but_not_on_the_same_key() -> None:
    first = b"".join(added(name, 1) for name in "abcdef")
    source = pod_reflector(
        first, end_of_initial_events(), Pause(0.5), b"".join(modified(n, 11) for n in "abcdef")
    )
    calls = RecordingReconciler(duration=1)
    async with running_controller(Controller("pods", calls, [Watch(source)], workers=3), source):
        await asyncio.sleep(20)
    assert calls.most_at_once == 3
    assert (
        len(calls.seen) == 9
    )  # three were being processed when all changed, three were still queued


async def test_resync_reconciles_everything_periodically() -> None:
    source = pod_reflector(added("a", 1), end_of_initial_events())
    calls = RecordingReconciler()
    controller = Controller("pods", calls, [Watch(source)], resync_period=600, jitter=lambda: 0.0)
    async with running_controller(controller, source):
        await asyncio.sleep(1500)
    assert calls.seen == [(0, "a"), (600, "a"), (1200, "a")]


async def test_stop_finishes_running_calls_and_drops_queued_keys() -> None:
    source = pod_reflector(added("a", 1) + added("b", 2), end_of_initial_events())
    calls = RecordingReconciler(duration=10)
    controller = Controller("pods", calls, [Watch(source)])
    reflecting = asyncio.create_task(source.run())
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(3)
    controller.stop()
    await running
    assert (now(), calls.names, calls.running) == (10, ["a"], set())
    reflecting.cancel()


async def test_controller_can_be_stopped_while_caches_sync() -> None:
    controller = Controller("pods", RecordingReconciler(), [Watch(pod_reflector())])
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    controller.stop()
    await running
    assert now() == 1


async def test_runtime_metrics_are_recorded() -> None:
    measured: list[Any] = []

    class RecordedMetrics:
        def register_queue(self, controller: str, depth: Callable[[], int]) -> None:
            measured.append((controller, depth()))

        def observe_reconcile(
            self, controller: str, outcome: str, seconds: float, queue_duration: float
        ) -> None:
            measured.append((controller, outcome, seconds, queue_duration))

        def count_watch_events(self, resource: str, count: int) -> None:
            measured.append((resource, count))

        def observe_list(self, resource: str, cause: str, objects: int) -> None:
            measured.append((resource, cause, objects))

        def count_watch_end(self, resource: str, reason: str) -> None:
            measured.append((resource, reason))

    outcomes = iter([None, ValueError("no"), Result(requeue_after=900)])
    first = added("a", 1) + added("b", 2) + added("c", 3) + end_of_initial_events()
    wire = ScriptedTransport([Stream(first, Pause(8), bookmark(11)), Stream(HangForever())])
    source = Reflector(client_over(wire), PODS, runtime_metrics=RecordedMetrics())
    calls = RecordingReconciler(lambda key: next(outcomes, None), duration=2)
    controller = Controller(
        "pods", calls, [Watch(source)], runtime_metrics=RecordedMetrics(), backoff=Backoff(100, 100)
    )
    async with running_controller(controller, source):
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


async def test_controller_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        Controller("pods", RecordingReconciler(), [], workers=0)
