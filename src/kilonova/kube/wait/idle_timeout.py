"""Detects idle streams.

A connection whose peer vanished looks like one on which nothing happens.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def timeout_when_idle(seconds: float) -> AsyncGenerator[Callable[[], None]]:
    """Raise `TimeoutError` in the body when the function it yields is not called for `seconds`.

    A call costs an assignment: one timer checks, and is set again if there was activity.
    """
    loop = asyncio.get_running_loop()
    last = loop.time()

    def reset() -> None:
        nonlocal last
        last = loop.time()

    async with asyncio.timeout(None) as deadline:

        def check() -> None:
            nonlocal timer
            due = last + seconds
            if loop.time() >= due:
                deadline.reschedule(loop.time())
            else:
                timer = loop.call_at(due, check)

        timer = loop.call_at(last + seconds, check)
        try:
            yield reset
        finally:
            timer.cancel()
