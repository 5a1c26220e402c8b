"""Calls few at first, and all at once where such have just been accepted."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kilonova.kube.batches import Trust, slow_start


class Server:
    """Counts calls under way; refuses those it is told to."""

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


async def test_slow_start_doubles_until_something_is_refused() -> None:
    server = Server()
    await slow_start(server.calls(9))
    assert server.batches == [1, 2, 4, 2]
    server = Server()
    server.refuses = True
    with pytest.raises(ValueError, match="no"):
        await slow_start(server.calls(9))
    assert server.batches == [1]


async def test_what_was_accepted_lately_needs_no_slow_start() -> None:
    now, server = 100.0, Server()
    trust = Trust(lambda: now)
    await trust.start("set", server.calls(3))
    assert server.batches == [1, 2]
    now += 9
    await trust.start("set", server.calls(3))
    assert server.batches == [1, 2, 3]
    await trust.start("another", server.calls(3))
    assert server.batches == [1, 2, 3, 1, 2]
    now += 11
    await trust.start("set", server.calls(3))
    assert server.batches == [1, 2, 3, 1, 2, 1, 2]


async def test_a_refusal_ends_trust() -> None:
    server = Server()
    trust = Trust(lambda: 100.0)
    await trust.start("set", server.calls(1))
    server.refuses = True
    for expected in ([1, 4], [1, 4, 1]):
        with pytest.raises(ValueError, match="no"):
            await trust.start("set", server.calls(4))
        assert server.batches == expected


async def test_no_calls_are_no_reason_to_trust() -> None:
    server = Server()
    trust = Trust(lambda: 100.0)
    await trust.start("set", [])
    await trust.start("set", server.calls(2))
    assert server.batches == [1, 1]
