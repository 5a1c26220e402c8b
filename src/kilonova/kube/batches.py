"""Many writes at once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence

_TRUSTED_SECONDS = 10.0


async def slow_start(calls: Sequence[Callable[[], Awaitable[None]]], *, first: int = 1) -> None:
    """So many calls at first, then twice as many …; raise the first failure of a batch."""
    done, batch = 0, first
    while done < len(calls):
        results = await asyncio.gather(
            *(call() for call in calls[done : done + batch]), return_exceptions=True
        )
        raise_first(results)
        done += batch
        batch *= 2


class Trust:
    """Remembers what the server has just accepted: more of the same needs no slow start.

    Where many owners have a few objects each, what refuses one will refuse all owners alike.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._accepted: dict[Hashable, float] = {}
        self._swept = monotonic()

    async def start(self, sort: Hashable, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Make calls of one sort: all at once if such were accepted lately, else a slow start."""
        first = len(calls) if self._is_trusted(sort) else 1
        try:
            await slow_start(calls, first=max(1, first))
        except BaseException:
            self._accepted.pop(sort, None)
            raise
        if calls:
            self._accepted[sort] = self._now()

    def _is_trusted(self, sort: Hashable) -> bool:
        now = self._now()
        if now - self._swept > _TRUSTED_SECONDS:
            start, self._swept = now - _TRUSTED_SECONDS, now
            self._accepted = {each: at for each, at in self._accepted.items() if at > start}
        return self._accepted.get(sort, float("-inf")) > now - _TRUSTED_SECONDS


def raise_first(results: Iterable[object]) -> None:
    """Raise the first exception among results, if there is one."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
