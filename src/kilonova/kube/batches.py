"""Many writes at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence


async def slow_start(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """One call, then two, then four …; after a batch with failures raise the first of them."""
    done, batch = 0, 1
    while done < len(calls):
        results = await asyncio.gather(
            *(call() for call in calls[done : done + batch]), return_exceptions=True
        )
        raise_first(results)
        done += batch
        batch *= 2


def raise_first(results: Iterable[object]) -> None:
    """Raise the first exception among results, if there is one."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
