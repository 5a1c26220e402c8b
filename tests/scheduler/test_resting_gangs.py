"""Gangs that rest are tried again when their rest ends: nothing else may come to wake them."""

import asyncio

from kilonova.scheduler.resting import Rests
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time


async def test_who_is_woken_for_has_rested_enough() -> None:
    woken = asyncio.Event()
    rests = Rests(woken.set)
    for number in range(3000):
        # Times with no short form in binary: sums of them are rounded.
        await asyncio.sleep(0.1 / 3)
        gang = f"gang-{number}"
        rests.failed(gang)
        assert gang in rests
        async with asyncio.timeout(10):
            await woken.wait()
        assert gang not in rests
        woken.clear()


async def test_who_got_a_place_rests_no_longer_and_wakes_nobody() -> None:
    woken = asyncio.Event()
    rests = Rests(woken.set)
    rests.failed("gang")
    rests.forget("gang")
    assert "gang" not in rests
    await asyncio.sleep(100)
    assert not woken.is_set()


async def test_rests_grow_until_nobody_remembers() -> None:
    woken = asyncio.Event()
    rests = Rests(woken.set)
    loop = asyncio.get_running_loop()
    took: list[float] = []
    for _ in range(8):
        begun = loop.time()
        rests.failed("gang")
        await woken.wait()
        woken.clear()
        took.append(loop.time() - begun)
    assert 30 <= took[-1] <= 60
    assert took[0] <= 1
    await asyncio.sleep(700)
    rests.failed("gang")
    begun = loop.time()
    await woken.wait()
    assert loop.time() - begun <= 1
