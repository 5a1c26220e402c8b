"""Virtual time: a whole cluster in one process, without waiting, and reproducible.

`run` runs a coroutine on an event loop whose clock advances only when all tasks wait: an hour of
heartbeats, back-offs and deadlines passes in the time that the work itself takes. With a seed,
generated names and ids are the same in every run, and the order of ready tasks is chosen by the
seed: another seed tries another order.

The same seed gives the same run only without external input: no `data` directory (writes to disk
use a thread), no sockets, no process node.
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

from kilonova.kube.wait.cooperative_yield import deterministic_yields
from kilonova.local.clock import Clock, IdGenerator
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster

T = TypeVar("T")

START_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def run(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int | None = None) -> T:
    """Run `main` in virtual time and return its result. Without a seed, tasks run in their usual
    order."""
    random_state = random.getstate()
    random.seed(seed)
    try:
        with (
            deterministic_yields(),
            asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(seed)) as runner,
        ):
            return runner.run(main())
    finally:
        random.setstate(random_state)


@asynccontextmanager
async def virtual_cluster(
    settings: ClusterSettings | None = None,
    *,
    seed: int = 0,
    build: Callable[[ClusterSettings, Clock, IdGenerator], EmbeddedCluster] = EmbeddedCluster,
) -> AsyncGenerator[EmbeddedCluster]:
    """A cluster in memory, without a socket, on the clock of the running loop.

    Another `build` adds components: a plain cluster has no scheduler.
    """
    cluster_settings = replace(settings or ClusterSettings(), data=None, port=None)
    started = build(cluster_settings, LoopClock(), IdGenerator(Random(seed)))  # noqa: S311 (reproducible)
    await started.start()
    try:
        await started.wait_nodes_registered()
        yield started
    finally:
        await started.stop()


class LoopClock:
    """The wall clock of the running event loop."""

    def now(self) -> datetime:
        return START_TIME + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int | None = None) -> None:
        self._elapsed = 0.0
        self._task_order = None if seed is None else Random(seed)  # noqa: S311 (reproducible)
        super().__init__(_TimeAdvancingSelector(self._advance))

    def time(self) -> float:
        return self._elapsed

    def _advance(self, seconds: float) -> None:
        self._elapsed += seconds

    def _run_once(self) -> None:
        if self._task_order is not None:
            self._shuffle_tasks(self._task_order)
        super()._run_once()  # type: ignore[misc]  # pyright: ignore

    def _shuffle_tasks(self, order: Random) -> None:
        """Reorder the ready tasks; callbacks keep their order."""
        ready = self._ready
        positions = [number for number, handle in enumerate(ready) if _is_task_step(handle)]
        if len(positions) < 2:
            return
        steps = [ready[position] for position in positions]
        order.shuffle(steps)
        for position, step in zip(positions, steps, strict=True):
            ready[position] = step


class _TimeAdvancingSelector(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self, leap: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # only an external event can continue
        found = super().select(0)
        if not found and timeout > 0:
            self._advance(timeout)
        return found


def _is_task_step(handle: asyncio.Handle) -> bool:
    callback: object = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
