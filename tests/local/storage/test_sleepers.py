"""Watches are woken for what concerns them, and in rounds where they are many."""

import asyncio

import pytest

from kilonova.local.storage import Entry, Event, EventType
from kilonova.local.storage.sleepers import AT_ONCE, LONGEST_ROUND, Interest, Sleepers

pytestmark = pytest.mark.looptime


def entry(key: str, *fields: str) -> Entry:
    return Entry(key, 1, b"{}", "", {}, fields)


def event(now: Entry, before: Entry | None = None) -> Event:
    return Event(EventType.MODIFIED if before else EventType.ADDED, now, before, 0.0)


async def asleep(sleepers: Sleepers, *interests: Interest) -> list[asyncio.Task[None]]:
    forever = asyncio.get_running_loop().time() + 3600
    tasks = [asyncio.create_task(sleepers.sleep(each, forever)) for each in interests]
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
async def test_only_those_concerned_wake(happens: Event, wakes: list[bool]) -> None:
    sleepers = Sleepers()
    tasks = await asleep(
        sleepers, None, ("key", "a/x"), ("namespace", "a"), (0, "n1"), (0, "n2"), (0, "n3")
    )
    sleepers.wake([happens])
    assert await woken(tasks) == wakes


async def test_an_entry_whose_fields_nobody_has_read_wakes_all_who_ask_about_fields() -> None:
    sleepers = Sleepers()
    tasks = await asleep(sleepers, (0, "n1"), ("namespace", "b"))
    sleepers.wake([event(Entry("a/x", 1, b"{}", "", {}, None))])
    assert await woken(tasks) == [True, False]


async def test_many_wake_together_and_soon() -> None:
    sleepers = Sleepers()
    tasks = await asleep(sleepers, *[None] * (AT_ONCE + 1))
    loop = asyncio.get_running_loop()
    began = loop.time()
    sleepers.wake([event(entry("a/x"))])
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    assert 0 < loop.time() - began <= LONGEST_ROUND


async def test_sleep_ends_at_its_time() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await Sleepers().sleep(None, began + 5)
    assert loop.time() == pytest.approx(began + 5)
