"""Slow start of bulk calls, skipped for kinds that were accepted recently."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kilonova.kube.controllers.slow_start import SlowStart, slow_start


class CountingServer:
    """Counts concurrent calls; rejects selected ones."""

    def __init__(self) -> None:
        self.under_way = 0
        self.batches: list[int] = []
        self.refuses = False

    async def call(self) -> None:
        self.under_way += 1
        await asyncio.sleep(0)
        if self.under_way:
            self.batches.append(self.under_way)
            self.under_way = 0
        if self.refuses:
            raise ValueError("no")

    def calls(self, count: int) -> list[Callable[[], Awaitable[None]]]:
        return [self.call] * count


async def test_slow_start_doubles_until_a_call_fails() -> None:
    server = CountingServer()
    await slow_start(server.calls(9))
    assert server.batches == [1, 2, 4, 2]
    server = CountingServer()
    server.refuses = True
    with pytest.raises(ValueError, match="no"):
        await slow_start(server.calls(9))
    assert server.batches == [1]


async def test_recently_accepted_kind_skips_slow_start() -> None:
    now, server = 100.0, CountingServer()
    trust = SlowStart(lambda: now)
    await trust.run("set", server.calls(3))
    assert server.batches == [1, 2]
    now += 9
    await trust.run("set", server.calls(3))
    assert server.batches == [1, 2, 3]
    await trust.run("another", server.calls(3))
    assert server.batches == [1, 2, 3, 1, 2]
    now += 11
    await trust.run("set", server.calls(3))
    assert server.batches == [1, 2, 3, 1, 2, 1, 2]


async def test_failure_restores_slow_start() -> None:
    server = CountingServer()
    trust = SlowStart(lambda: 100.0)
    await trust.run("set", server.calls(1))
    server.refuses = True
    for expected in ([1, 4], [1, 4, 1]):
        with pytest.raises(ValueError, match="no"):
            await trust.run("set", server.calls(4))
        assert server.batches == expected


async def test_empty_batch_does_not_skip_later_slow_start() -> None:
    server = CountingServer()
    trust = SlowStart(lambda: 100.0)
    await trust.run("set", [])
    await trust.run("set", server.calls(2))
    assert server.batches == [1, 1]
