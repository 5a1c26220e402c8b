"""The work queue. Virtual time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube import Backoff, Priority, WorkQueue, WorkQueueShutDown

pytestmark = pytest.mark.looptime


def queue_without_jitter(base_delay: float = 1.0, max_delay: float = 10.0) -> WorkQueue[str]:
    return WorkQueue(Backoff(base_delay, max_delay, jitter=lambda: 0.0))


def now() -> float:
    return asyncio.get_running_loop().time()


async def take_keys(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


async def test_keys_are_returned_once_in_insertion_order() -> None:
    queue = queue_without_jitter()
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert await take_keys(queue, 2) == ["a", "b"]


async def test_high_priority_keys_are_returned_first() -> None:
    queue = queue_without_jitter()
    queue.add("initial", Priority.LOW)
    queue.add("changed")
    queue.add("gone", Priority.HIGH)
    assert await take_keys(queue, 3) == ["gone", "changed", "initial"]


async def test_priority_of_a_queued_key_only_increases() -> None:
    queue = queue_without_jitter()
    queue.add("a", Priority.LOW)
    queue.add("b")
    queue.add("a", Priority.HIGH)
    queue.add("a", Priority.LOW)
    assert await take_keys(queue, 2) == ["a", "b"]


async def test_key_added_during_processing_is_requeued() -> None:
    queue = queue_without_jitter()
    queue.add("a")
    key = await queue.get()
    queue.add("a", Priority.LOW)
    queue.add("a", Priority.HIGH)
    queue.add("b")
    assert len(queue) == 1
    queue.done(key)
    assert await take_keys(queue, 2) == ["a", "b"]


async def test_queue_is_idle_when_no_key_is_ready_or_processed() -> None:
    queue = queue_without_jitter()
    queue.add("a")
    assert not queue.is_idle
    key = await queue.get()
    assert not queue.is_idle
    queue.done(key)
    queue.add_after(key, 5)
    assert queue.is_idle


async def test_worker_waits_for_a_key() -> None:
    queue = queue_without_jitter()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(5)
    queue.add("a")
    assert await worker == "a"


async def test_queue_duration_is_recorded() -> None:
    queue = queue_without_jitter()
    queue.add("a")
    await asyncio.sleep(3)
    assert queue.queue_duration(await queue.get()) == 3


async def test_delayed_keys_are_returned_when_due() -> None:
    queue = queue_without_jitter()
    queue.add_after("late", 20)
    queue.add_after("early", 5)
    queue.add_after("now", 0)
    observed: list[tuple[float, str]] = []
    for _ in range(3):
        key = await queue.get()
        observed.append((now(), key))
    assert observed == [(0, "now"), (5, "early"), (20, "late")]


async def test_earliest_of_several_delays_applies() -> None:
    queue = queue_without_jitter()
    for delay in (20, 5, 10):
        queue.add_after("a", delay)
    assert (await queue.get(), now()) == ("a", 5)
    queue.done("a")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_retry_delay_grows_until_forgotten() -> None:
    queue = queue_without_jitter(base_delay=1, max_delay=10)
    assert [queue.add_rate_limited("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert queue.add_rate_limited("other") == 1
    assert queue.num_requeues("a") == 6
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    assert queue.add_rate_limited("a") == 1


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_jittered_delay_is_between_half_and_full(failures: int, chance: float) -> None:
    backoff = Backoff(0.005, 300.0, jitter=lambda: chance)
    full = min(0.005 * 2 ** min(failures - 1, 40), 300.0)
    assert full / 2 <= backoff.delay(failures) <= full


@pytest.mark.parametrize(("first", "longest"), [(0, 1), (-1, 1), (2, 1)])
def test_invalid_backoff_is_rejected(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="invalid back-off"):
        Backoff(first, longest)


async def test_shut_down_queue_drains_and_ends_its_workers() -> None:
    queue = queue_without_jitter()
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 5)
    key = await queue.get()
    queue.add("a")
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    queue.done(key)
    assert await take_keys(queue, 2) == ["b", "a"]
    with pytest.raises(WorkQueueShutDown):
        await queue.get()


async def test_shut_down_without_drain_drops_queued_keys() -> None:
    queue = queue_without_jitter()
    idle = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down(drain=False)
    results = await asyncio.gather(*idle, return_exceptions=True)
    assert [type(result) for result in results] == [WorkQueueShutDown] * 3
    busy = queue_without_jitter()
    busy.add("a")
    busy.shut_down(drain=False)
    with pytest.raises(WorkQueueShutDown):
        await busy.get()


async def test_worker_cancelled_while_waking_passes_the_key_on() -> None:
    queue = queue_without_jitter()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_worker_cancelled_while_waiting_is_forgotten() -> None:
    queue = queue_without_jitter()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    queue.add("a")
    assert await second == "a"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.sampled_from(list(Priority))),
        st.tuples(st.just("get"), st.just(""), st.just(0)),
        st.tuples(st.just("done"), st.sampled_from("abc"), st.just(0)),
    )
)


@given(STEPS)
def test_no_key_is_lost_or_processed_concurrently(steps: list[tuple[str, str, int]]) -> None:
    async def scenario() -> None:
        queue = queue_without_jitter()
        working: set[str] = set()
        expected: set[str] = set()  # added, and not processed since
        for step, key, priority in steps:
            if step == "add":
                queue.add(key, priority)
                expected.add(key)
            elif step == "get" and len(queue):
                taken_key = await queue.get()
                assert taken_key not in working
                working.add(taken_key)
                expected.discard(taken_key)
            elif step == "done" and key in working:
                working.discard(key)
                queue.done(key)
            assert len(queue) == len(expected - working)

    asyncio.run(scenario())
