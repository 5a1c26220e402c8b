"""Bulk writes with a slow start: small batches first, as kube-controller-manager's
slowStartBatch."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence

_ACCEPTED_TTL_SECONDS = 10.0


async def slow_start(
    calls: Sequence[Callable[[], Awaitable[None]]], *, initial_batch: int = 1
) -> None:
    """Make calls in batches that double in size; raise the first failure of a batch."""
    done, batch = 0, initial_batch
    while done < len(calls):
        results = await asyncio.gather(
            *(call() for call in calls[done : done + batch]), return_exceptions=True
        )
        raise_first_failure(results)
        done += batch
        batch *= 2


class SlowStart:
    """Skips the slow start for kinds of call that the server accepted recently.

    With many owners of a few objects each, a rejection affects all owners alike.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._accepted: dict[Hashable, float] = {}
        self._pruned_at = monotonic()

    async def run(self, kind: Hashable, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Make calls of one kind: all at once if such calls succeeded recently, else a slow
        start."""
        first = len(calls) if self._is_recently_accepted(kind) else 1
        try:
            await slow_start(calls, initial_batch=max(1, first))
        except BaseException:
            self._accepted.pop(kind, None)
            raise
        if calls:
            self._accepted[kind] = self._now()

    def _is_recently_accepted(self, kind: Hashable) -> bool:
        now = self._now()
        if now - self._pruned_at > _ACCEPTED_TTL_SECONDS:
            start, self._pruned_at = now - _ACCEPTED_TTL_SECONDS, now
            self._accepted = {each: at for each, at in self._accepted.items() if at > start}
        return self._accepted.get(kind, float("-inf")) > now - _ACCEPTED_TTL_SECONDS


def raise_first_failure(results: Iterable[object]) -> None:
    """Raise the first exception among the results, if there is one."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
