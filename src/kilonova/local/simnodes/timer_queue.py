"""Scheduled actions on the event loop's clock, in order, with bounded concurrency."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

from kilonova.kube import Conflict, KubeError, NotFound
from kilonova.kube.observability.structured_logging import get_logger

TimerAction = Callable[[], Awaitable[None]]
"""An action. It checks its object again: much may have changed since it was scheduled."""

_MAX_CONCURRENT = 64
_RETRY_SECONDS = 1.0
_RETRY_FAILED_SECONDS = 60.0
_CLOCK_RESOLUTION = 1e-6
"""The resolution of the clock: a timer may fire that much early."""
_log = get_logger(__name__)


@dataclass(order=True, slots=True)
class _Timer:
    time: float
    number: int
    action: TimerAction = field(compare=False)


class TimerQueue:
    """One task runs due actions. An action that fails with a temporary API error is retried."""

    def __init__(self) -> None:
        self._timers: list[_Timer] = []
        self._numbers = count()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    def call_after(self, seconds: float, action: TimerAction) -> None:
        """Schedule an action in so many seconds."""
        self._call_at(asyncio.get_running_loop().time() + max(0.0, seconds), action)

    def _call_at(self, time: float, action: TimerAction) -> None:
        heapq.heappush(self._timers, _Timer(time, next(self._numbers), action))
        self._wake.set()

    async def run(self) -> None:
        """Run due actions until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                while self._timers and self._timers[0].time <= loop.time() + _CLOCK_RESOLUTION:
                    due = heapq.heappop(self._timers)
                    await self._slots.acquire()
                    group.create_task(self._run_action(due.action))
                wait = self._timers[0].time - loop.time() if self._timers else None
                try:
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _run_action(self, action: TimerAction) -> None:
        try:
            await action()
        except (NotFound, Conflict):
            return  # its object is gone, or was replaced
        except KubeError as error:
            _log.warning("simulated action rejected by the API, will retry", error=str(error))
            self.call_after(_RETRY_SECONDS, action)
        except Exception:
            # One pod or node that cannot be simulated must not stop the others.
            _log.exception("simulated action failed, will retry", after=_RETRY_FAILED_SECONDS)
            self.call_after(_RETRY_FAILED_SECONDS, action)
        finally:
            self._slots.release()
