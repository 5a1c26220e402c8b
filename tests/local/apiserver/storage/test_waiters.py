"""Watches are woken for matching events, and after a delay if they are many."""

import asyncio

import pytest

from kilonova.local.apiserver.storage import Entry, EventType, StorageEvent
from kilonova.local.apiserver.storage.waiters import (
    IMMEDIATE_WAKES,
    MAX_WAKE_DELAY,
    Waiters,
    WatchInterest,
)

pytestmark = pytest.mark.looptime


def entry(key: str, *fields: str) -> Entry:
    return Entry(key, 1, b"{}", "", {}, fields)


def event(now: Entry, before: Entry | None = None) -> StorageEvent:
    return StorageEvent(EventType.MODIFIED if before else EventType.ADDED, now, before, 0.0)


async def wait_in_task(waiters: Waiters, *interests: WatchInterest) -> list[asyncio.Task[None]]:
    forever = asyncio.get_running_loop().time() + 3600
    tasks = [asyncio.create_task(waiters.wait(each, forever)) for each in interests]
    await asyncio.sleep(0)
    return tasks


async def woken(tasks: list[asyncio.Task[None]]) -> list[bool]:
    for _ in range(3):
        await asyncio.sleep(0)
    done = [task.done() for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return done


@pytest.mark.parametrize(
    ("happens", "wakes"),
    [
        (event(entry("a/x", "n1")), [True, True, True, True, False, False]),
        (event(entry("b/y", "n2")), [True, False, False, False, True, False]),
        (event(entry("a/z", "n2"), entry("a/z", "n1")), [True, False, True, True, True, False]),
        (event(entry("c/q", "")), [True, False, False, False, False, False]),
    ],
)
async def test_only_matching_waiters_wake(happens: StorageEvent, wakes: list[bool]) -> None:
    waiters = Waiters()
    tasks = await wait_in_task(
        waiters, None, ("key", "a/x"), ("namespace", "a"), (0, "n1"), (0, "n2"), (0, "n3")
    )
    waiters.wake([happens])
    assert await woken(tasks) == wakes


async def test_entry_without_field_values_wakes_all_field_waiters() -> None:
    waiters = Waiters()
    tasks = await wait_in_task(waiters, (0, "n1"), ("namespace", "b"))
    waiters.wake([event(Entry("a/x", 1, b"{}", "", {}, None))])
    assert await woken(tasks) == [True, False]


async def test_many_waiters_are_woken_together_after_a_short_delay() -> None:
    waiters = Waiters()
    tasks = await wait_in_task(waiters, *[None] * (IMMEDIATE_WAKES + 1))
    loop = asyncio.get_running_loop()
    started = loop.time()
    waiters.wake([event(entry("a/x"))])
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    assert 0 < loop.time() - started <= MAX_WAKE_DELAY


async def test_wait_ends_at_its_time() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await Waiters().wait(None, started + 5)
    assert loop.time() == pytest.approx(started + 5)
