"""The work queue. Virtual time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube import Backoff, Priority, Queue, QueueClosed

pytestmark = pytest.mark.looptime


def steady(first: float = 1.0, longest: float = 10.0) -> Queue[str]:
    return Queue(Backoff(first, longest, jitter=lambda: 0.0))


def now() -> float:
    return asyncio.get_running_loop().time()


async def taken(queue: Queue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


async def test_keys_come_in_the_order_they_were_added_and_once() -> None:
    queue = steady()
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert await taken(queue, 2) == ["a", "b"]


async def test_urgent_keys_come_first() -> None:
    queue = steady()
    queue.add("initial", Priority.LOW)
    queue.add("changed")
    queue.add("gone", Priority.HIGH)
    assert await taken(queue, 3) == ["gone", "changed", "initial"]


async def test_a_waiting_key_moves_up_and_never_down() -> None:
    queue = steady()
    queue.add("a", Priority.LOW)
    queue.add("b")
    queue.add("a", Priority.HIGH)
    queue.add("a", Priority.LOW)
    assert await taken(queue, 2) == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_comes_again_when_that_is_done() -> None:
    queue = steady()
    queue.add("a")
    key = await queue.get()
    queue.add("a", Priority.LOW)
    queue.add("a", Priority.HIGH)
    queue.add("b")
    assert len(queue) == 1
    queue.done(key)
    assert await taken(queue, 2) == ["a", "b"]


async def test_a_worker_waits_for_a_key() -> None:
    queue = steady()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(5)
    queue.add("a")
    assert await worker == "a"


async def test_how_long_a_key_waited_is_known() -> None:
    queue = steady()
    queue.add("a")
    await asyncio.sleep(3)
    assert queue.waited(await queue.get()) == 3


async def test_delayed_keys_come_when_they_are_due() -> None:
    queue = steady()
    queue.add_after("late", 20)
    queue.add_after("early", 5)
    queue.add_after("now", 0)
    seen: list[tuple[float, str]] = []
    for _ in range(3):
        key = await queue.get()
        seen.append((now(), key))
    assert seen == [(0, "now"), (5, "early"), (20, "late")]


async def test_of_several_delays_the_earliest_counts() -> None:
    queue = steady()
    for delay in (20, 5, 10):
        queue.add_after("a", delay)
    assert (await queue.get(), now()) == ("a", 5)
    queue.done("a")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_retries_are_delayed_more_and_more_until_forgotten() -> None:
    queue = steady(first=1, longest=10)
    assert [queue.retry("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert queue.retry("other") == 1
    assert queue.failures("a") == 6
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.retry("a") == 1


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_delays_stay_between_half_and_all_of_the_ceiling(failures: int, chance: float) -> None:
    backoff = Backoff(0.005, 300.0, jitter=lambda: chance)
    full = min(0.005 * 2 ** min(failures - 1, 40), 300.0)
    assert full / 2 <= backoff.delay(failures) <= full


@pytest.mark.parametrize(("first", "longest"), [(0, 1), (-1, 1), (2, 1)])
def test_a_backoff_that_makes_no_sense_is_refused(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        Backoff(first, longest)


async def test_a_closed_queue_is_drained_and_then_ends_its_workers() -> None:
    queue = steady()
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 5)
    key = await queue.get()
    queue.add("a")
    queue.close()
    queue.add("c")
    queue.add_after("d", 1)
    queue.done(key)
    assert await taken(queue, 2) == ["b", "a"]
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_queue_closed_without_draining_drops_what_waits() -> None:
    queue = steady()
    idle = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close(drain=False)
    results = await asyncio.gather(*idle, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed] * 3
    busy = steady()
    busy.add("a")
    busy.close(drain=False)
    with pytest.raises(QueueClosed):
        await busy.get()


async def test_a_worker_cancelled_as_it_wakes_passes_the_key_on() -> None:
    queue = steady()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_a_worker_cancelled_while_it_waits_leaves_no_trace() -> None:
    queue = steady()
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
def test_no_key_is_lost_or_worked_on_twice_at_once(steps: list[tuple[str, str, int]]) -> None:
    async def scenario() -> None:
        queue = steady()
        working: set[str] = set()
        wanted: set[str] = set()  # added, and not begun since
        for step, key, priority in steps:
            if step == "add":
                queue.add(key, priority)
                wanted.add(key)
            elif step == "get" and len(queue):
                taken_key = await queue.get()
                assert taken_key not in working
                working.add(taken_key)
                wanted.discard(taken_key)
            elif step == "done" and key in working:
                working.discard(key)
                queue.done(key)
            assert len(queue) == len(wanted - working)

    asyncio.run(scenario())
