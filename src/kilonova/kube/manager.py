"""Runs the parts of a process together: caches, servers, an election, controllers.

Each part is one named task. All live and end together: a part that fails, or ends unasked,
stops the others, and `run` raises its failure. On SIGTERM, SIGINT or `stop`, controllers end
first, each finishing what it has begun; then the Lease is released; then the other parts end
in the reverse order of their start. What is not done by the deadline is cancelled.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast, runtime_checkable

from kilonova.kube.logging import get_logger
from kilonova.kube.reflector import Reflector

_log = get_logger(__name__)

_CANCEL_SECONDS = 5.0
"""How long a cancelled part may take to clean up before it is left behind."""


class Part(Protocol):
    """Something that runs until it is cancelled, or told to stop if it is `Stoppable`."""

    name: str

    async def run(self) -> None: ...


@runtime_checkable
class Stoppable(Protocol):
    """A part with a gentler end than cancellation: after `stop`, its `run` returns soon."""

    def stop(self) -> None: ...


class Election(Protocol):
    """Runs `lead` while this process leads; raises when the leadership is lost.

    `lead` is cancelled when the leadership is lost; when `lead` returns, it is given up.
    """

    name: str

    async def run(self, lead: Callable[[Any], Coroutine[Any, Any, None]]) -> None: ...


class PartFailed(Exception):
    """A part failed, and the process stopped for it; `__cause__` says why."""

    def __init__(self, part: str, cause: BaseException | None) -> None:
        super().__init__(f"{part} {'failed: ' + str(cause) if cause else 'ended unexpectedly'}")
        self.part = part


class Manager:
    """Runs parts until told to stop. Add all parts first, then run once.

    With an election, the parts added by `add_leading` run only while this process leads.
    """

    def __init__(self, *, grace: float = 30.0, election: Election | None = None) -> None:
        self._grace = grace
        self._election = election
        self._parts: list[Part] = []
        self._leading: list[Part] = []
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_leading = False
        self._deadline = 0.0
        self._failure: PartFailed | None = None

    def add(self, *parts: Part) -> None:
        """Run these from the start, in this order: servers, reflectors."""
        self._parts.extend(parts)

    def add_leading(self, *parts: Part) -> None:
        """Run these while leading: controllers, whatever writes."""
        self._leading.extend(parts)

    @property
    def stopping(self) -> bool:
        """Whether the end has begun; a readiness check then says no."""
        return self._stopping.is_set()

    def not_ready(self) -> list[str]:
        """The names of the caches that are not filled yet; ready when empty."""
        parts = (*self._parts, *self._leading)
        return [part.name for part in parts if isinstance(part, Reflector) and not part.synced]

    def stop(self, reason: str = "asked to") -> None:
        """Begin a graceful stop; `run` returns when it is complete."""
        if not self._stopping.is_set():
            _log.info("stopping", reason=reason)
            self._deadline = asyncio.get_running_loop().time() + self._grace
            self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Run all parts until stopped; raise `PartFailed` if one of them was the reason."""
        tasks: list[tuple[Part, asyncio.Task[None]]] = []
        leading: asyncio.Task[None] | None = None
        try:
            with self._signals() if signals else _no_signals():
                tasks.extend((part, self._start(part.name, part.run)) for part in self._parts)
                name = f"election {self._election.name}" if self._election else "controllers"
                leading = self._start(name, self._lead)
                await self._stopping.wait()
                await self._end_leading(leading)
                for part, task in reversed(tasks):
                    await self._end([(part, task)])
        finally:
            rest = [task for _, task in tasks] + ([leading] if leading else [])
            await _cancel(rest)
        if self._failure is not None:
            raise self._failure from self._failure.__cause__

    async def _lead(self) -> None:
        if self._election is None:
            await self._run_leading(None)
        else:
            await self._election.run(self._run_leading)

    async def _run_leading(self, _leadership: object) -> None:
        """What the leader does. Cancelled without grace when the leadership is lost."""
        self._is_leading = True
        tasks = [(part, self._start(part.name, part.run)) for part in self._leading]
        try:
            await self._stopping.wait()
            await self._end(tasks)
        finally:
            await _cancel([task for _, task in tasks])
            self._is_leading = False

    async def _end_leading(self, task: asyncio.Task[None]) -> None:
        if not self._is_leading:
            task.cancel()
        # The leading parts have their own deadline; what remains is to release the Lease.
        remaining = self._deadline - asyncio.get_running_loop().time()
        await asyncio.wait((task,), timeout=remaining + 2 * _CANCEL_SECONDS)
        await _cancel([task])

    async def _end(self, tasks: Sequence[tuple[Part, asyncio.Task[None]]]) -> None:
        """Tell parts to stop, wait for them until the deadline, then cancel them."""
        for part, task in tasks:
            if isinstance(part, Stoppable):
                part.stop()
            else:
                task.cancel()
        pending = {task for _, task in tasks if not task.done()}
        hurry = asyncio.ensure_future(self._hurry.wait())
        loop = asyncio.get_running_loop()
        try:
            while pending and not hurry.done() and loop.time() < self._deadline:
                _, still = await asyncio.wait(
                    (*pending, hurry),
                    timeout=self._deadline - loop.time(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                pending &= still
        finally:
            hurry.cancel()
        for task in pending:
            _log.warning("part did not stop in time and is cancelled", part=task.get_name())
        await _cancel(list(pending))

    def _start(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        return asyncio.create_task(self._supervise(name, work), name=name)

    async def _supervise(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:
            cause = _only_cause(error)
            if self._failure is None and not self.stopping:
                self._failure = PartFailed(name, cause)
                self._failure.__cause__ = cause
            else:
                _log.exception("part failed while stopping", part=name)
            self.stop(f"{name} failed")
        else:
            if not self.stopping:
                self._failure = PartFailed(name, None)
                self.stop(f"{name} ended unexpectedly")

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Stop at the first signal; at the second, no longer wait for anything."""
        loop = asyncio.get_running_loop()

        def received(name: str) -> None:
            if self.stopping:
                self._hurry.set()
            self.stop(name)

        handled = (signal.SIGTERM, signal.SIGINT)
        for number in handled:
            loop.add_signal_handler(number, received, number.name)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


@contextmanager
def _no_signals() -> Generator[None]:
    yield


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    if pending:
        _, left = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
        for task in left:
            _log.error("part ignores its cancellation and is left behind", part=task.get_name())


def _only_cause(error: Exception) -> Exception:
    """The failure inside groups of one, which is what a reader wants to see."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return _only_cause(group.exceptions[0]) if len(group.exceptions) == 1 else group
