"""Gangs in backoff are retried when it ends: no other event may wake the loop."""

import asyncio

from kilonova.scheduler.failures.backoff import GangBackoff
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time


async def test_backoff_is_over_when_the_loop_is_woken() -> None:
    wakeup = asyncio.Event()
    backoff = GangBackoff(wakeup.set)
    for number in range(3000):
        # Times without a short binary form: sums of them are rounded.
        await asyncio.sleep(0.1 / 3)
        gang = f"gang-{number}"
        backoff.record_failure(gang)
        assert gang in backoff
        async with asyncio.timeout(10):
            await wakeup.wait()
        assert gang not in backoff
        wakeup.clear()


async def test_placed_gang_has_no_backoff() -> None:
    wakeup = asyncio.Event()
    backoff = GangBackoff(wakeup.set)
    backoff.record_failure("gang")
    backoff.forget("gang")
    assert "gang" not in backoff
    await asyncio.sleep(100)
    assert not wakeup.is_set()


async def test_backoff_grows_until_failures_are_forgotten() -> None:
    wakeup = asyncio.Event()
    backoff = GangBackoff(wakeup.set)
    loop = asyncio.get_running_loop()
    took: list[float] = []
    for _ in range(8):
        begun = loop.time()
        backoff.record_failure("gang")
        await wakeup.wait()
        wakeup.clear()
        took.append(loop.time() - begun)
    assert 30 <= took[-1] <= 60
    assert took[0] <= 1
    await asyncio.sleep(700)
    backoff.record_failure("gang")
    begun = loop.time()
    await wakeup.wait()
    assert loop.time() - begun <= 1
