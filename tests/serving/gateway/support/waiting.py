"""Waiting for a condition."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")


async def wait_until(is_true: Callable[[], bool], timeout: float = 20) -> None:
    """Poll until it is."""
    async with asyncio.timeout(timeout):
        while not is_true():
            await asyncio.sleep(0.01)


async def wait_until_answer(
    ask: Callable[[], Awaitable[Answer]], expected: Answer, timeout: float = 20
) -> None:
    """Ask until the answer is the expected one."""
    latest: Answer | None = None
    try:
        async with asyncio.timeout(timeout):
            while (latest := await ask()) != expected:
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"the answer is still {latest!r}, not {expected!r}") from None
