"""Notices that nothing comes any more.

A connection whose other end vanished without a word looks like one on which nothing happens.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def ends_when_silent(seconds: float) -> AsyncGenerator[Callable[[], None]]:
    """Raise `TimeoutError` in the body once `heard`, which it is given, is not called for long.

    Calling `heard` costs an assignment: one timer checks, and arms itself again if all is well.
    """
    loop = asyncio.get_running_loop()
    last = loop.time()

    def heard() -> None:
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
            yield heard
        finally:
            timer.cancel()
