"""What is due when: acts on the event loop's clock, in order, a bounded number at a time."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

from kilonova.kube import Conflict, KubeError, NotFound
from kilonova.kube.logging import get_logger

Act = Callable[[], Awaitable[None]]
"""Something to do. It looks again at what it is about: much may have changed meanwhile."""

_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_RETRY_FAILED_SECONDS = 60.0
_TICK = 1e-6
"""As exactly as a clock goes: a timer may ring that much too early."""
_log = get_logger(__name__)


@dataclass(order=True, slots=True)
class _Due:
    time: float
    number: int
    act: Act = field(compare=False)


class Timetable:
    """One task runs what is due. An act that the API refuses for now is tried again."""

    def __init__(self) -> None:
        self._due: list[_Due] = []
        self._numbers = count()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def after(self, seconds: float, act: Act) -> None:
        """Do something in so many seconds."""
        self._at(asyncio.get_running_loop().time() + max(0.0, seconds), act)

    def _at(self, time: float, act: Act) -> None:
        heapq.heappush(self._due, _Due(time, next(self._numbers), act))
        self._wake.set()

    async def run(self) -> None:
        """Perform until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                while self._due and self._due[0].time <= loop.time() + _TICK:
                    due = heapq.heappop(self._due)
                    await self._slots.acquire()
                    group.create_task(self._perform(due.act))
                wait = self._due[0].time - loop.time() if self._due else None
                try:
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _perform(self, act: Act) -> None:
        try:
            await act()
        except (NotFound, Conflict):
            return  # what it was about has gone, or is another now
        except KubeError as error:
            _log.warning("will try again", error=str(error))
            self.after(_RETRY_SECONDS, act)
        except Exception:
            # One pod or node that cannot be played must not stop the others.
            _log.exception("act failed, will try again", after=_RETRY_FAILED_SECONDS)
            self.after(_RETRY_FAILED_SECONDS, act)
        finally:
            self._slots.release()
