"""Virtual time: a whole cluster in one process, as fast as it can think, the same every time.

`run` drives a coroutine on an event loop whose clock moves only when everybody waits: an hour of
heartbeats, back-offs and deadlines passes in the time that the work itself takes. With a seed,
the names and ids that are made up are the same in every run, and tasks that could go in any order
go in an order that the seed chooses: another seed tries another order.

The same seed gives the same run only if nothing from outside comes in: no `data` folder (writes
to disk have a thread), no sockets, no process node.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from kilonova.kube.breath import counted_breath
from kilonova.local.clock import Clock, Identities
from kilonova.local.cluster import Cluster, Settings

T = TypeVar("T")

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def run(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int | None = None) -> T:
    """What `main` returns, run in virtual time. Without a seed, tasks go in their usual order."""
    before = random.getstate()
    random.seed(seed)
    try:
        with (
            counted_breath(),
            asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner,
        ):
            return runner.run(main())
    finally:
        random.setstate(before)


@asynccontextmanager
async def cluster(
    settings: Settings | None = None,
    *,
    seed: int = 0,
    build: Callable[[Settings, Clock, Identities], Cluster] = Cluster,
) -> AsyncGenerator[Cluster]:
    """A cluster in memory, without a socket, on the clock of the running loop.

    Another `build` adds what lives in it: a bare cluster has no scheduler.
    """
    asked = replace(settings or Settings(), data=None, port=None)
    started = build(asked, LoopClock(), Identities(Random(seed)))  # noqa: S311 (reproducible)
    await started.start()
    try:
        await started.wait_settled()
        yield started
    finally:
        await started.stop()


class LoopClock:
    """The time of day as the running event loop has it."""

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int | None = None) -> None:
        self._elapsed = 0.0
        self._order = None if seed is None else Random(seed)  # noqa: S311 (reproducible)
        super().__init__(_LeapingSelector(self._leap))

    def time(self) -> float:
        return self._elapsed

    def _leap(self, seconds: float) -> None:
        self._elapsed += seconds

    def _run_once(self) -> None:
        if self._order is not None:
            self._reorder(self._order)
        super()._run_once()  # type: ignore[misc]  # pyright: ignore

    def _reorder(self, order: Random) -> None:
        """Let tasks that are ready go in another order; callbacks keep theirs."""
        ready = self._ready
        places = [number for number, handle in enumerate(ready) if _is_step(handle)]
        if len(places) < 2:
            return
        steps = [ready[place] for place in places]
        order.shuffle(steps)
        for place, step in zip(places, steps, strict=True):
            ready[place] = step


class _LeapingSelector(selectors.DefaultSelector):
    """Tells of what is ready; where nothing is, time leaps over the wait."""

    def __init__(self, leap: Callable[[float], None]) -> None:
        super().__init__()
        self._leap = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # only something from outside can go on
        found = super().select(0)
        if not found and timeout > 0:
            self._leap(timeout)
        return found


def _is_step(handle: asyncio.Handle) -> bool:
    callback: object = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
