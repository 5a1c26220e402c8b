"""Runs the runnables of a process: caches, servers, leader election, controllers.

Each runnable is one named task. They share one lifetime: a runnable that fails, or returns before
it is stopped, stops the others, and `run` raises its failure. On SIGTERM, SIGINT or `stop`,
controllers stop first, each finishing the calls in progress; then the Lease is released; then the
other runnables stop in the reverse order of their start. Whatever has not stopped by the deadline
is cancelled.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast, runtime_checkable

from kilonova.kube.informers.reflector import Reflector
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_CANCEL_TIMEOUT_SECONDS = 5.0
"""How long a cancelled runnable may take to clean up before it is abandoned."""


class Runnable(Protocol):
    """Runs until it is cancelled, or until `stop` if it is a `GracefulRunnable`."""

    name: str

    async def run(self) -> None: ...


@runtime_checkable
class GracefulRunnable(Protocol):
    """A runnable that stops without cancellation: after `stop`, its `run` returns soon."""

    def stop(self) -> None: ...


class LeaderElection(Protocol):
    """Runs `lead` while this process leads; raises when the leadership is lost.

    `lead` is cancelled when the leadership is lost; when `lead` returns, the leadership is
    released.
    """

    name: str

    async def run(self, lead: Callable[[Any], Coroutine[Any, Any, None]]) -> None: ...


class RunnableFailed(Exception):
    """A runnable failed, and the process stopped because of it; `__cause__` is the failure."""

    def __init__(self, runnable: str, cause: BaseException | None) -> None:
        super().__init__(f"{runnable} {'failed: ' + str(cause) if cause else 'ended unexpectedly'}")
        self.runnable = runnable


class Manager:
    """Runs runnables until stopped. Add all of them first, then call `run` once.

    With leader election, those added by `add_leader_runnables` run only while this process leads.
    """

    def __init__(self, *, grace: float = 30.0, election: LeaderElection | None = None) -> None:
        self._grace = grace
        self._election = election
        self._runnables: list[Runnable] = []
        self._leader_runnables: list[Runnable] = []
        self._stopping = asyncio.Event()
        self._skip_grace = asyncio.Event()
        self._is_leading = False
        self._deadline = 0.0
        self._failure: RunnableFailed | None = None

    def add(self, *runnables: Runnable) -> None:
        """Run these from the start, in this order: servers, reflectors."""
        self._runnables.extend(runnables)

    def add_leader_runnables(self, *runnables: Runnable) -> None:
        """Run these while leading: controllers, and whatever else writes."""
        self._leader_runnables.extend(runnables)

    @property
    def is_stopping(self) -> bool:
        """Whether the stop has begun; readiness then fails."""
        return self._stopping.is_set()

    def unsynced_caches(self) -> list[str]:
        """The names of the caches that have not synced yet; the process is ready when empty."""
        runnables = (*self._runnables, *self._leader_runnables)
        return [
            runnable.name
            for runnable in runnables
            if isinstance(runnable, Reflector) and not runnable.has_synced
        ]

    def stop(self, reason: str = "stop requested") -> None:
        """Begin a graceful stop; `run` returns when it is complete."""
        if not self._stopping.is_set():
            _log.info("stopping", reason=reason)
            self._deadline = asyncio.get_running_loop().time() + self._grace
            self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Run until stopped; raise `RunnableFailed` if a runnable was the cause."""
        tasks: list[tuple[Runnable, asyncio.Task[None]]] = []
        leading: asyncio.Task[None] | None = None
        try:
            with self._handle_signals() if signals else _ignore_signals():
                tasks.extend(
                    (runnable, self._start_task(runnable.name, runnable.run))
                    for runnable in self._runnables
                )
                name = f"election {self._election.name}" if self._election else "controllers"
                leading = self._start_task(name, self._run_leader_election)
                await self._stopping.wait()
                await self._stop_leader_runnables(leading)
                for runnable, task in reversed(tasks):
                    await self._stop_runnables([(runnable, task)])
        finally:
            remaining = [task for _, task in tasks] + ([leading] if leading else [])
            await _cancel_tasks(remaining)
        if self._failure is not None:
            raise self._failure from self._failure.__cause__

    async def _run_leader_election(self) -> None:
        if self._election is None:
            await self._run_leader_runnables(None)
        else:
            await self._election.run(self._run_leader_runnables)

    async def _run_leader_runnables(self, _leadership: object) -> None:
        """Run the leader's runnables. Cancelled without grace when the leadership is lost."""
        self._is_leading = True
        tasks = [
            (runnable, self._start_task(runnable.name, runnable.run))
            for runnable in self._leader_runnables
        ]
        try:
            await self._stopping.wait()
            await self._stop_runnables(tasks)
        finally:
            await _cancel_tasks([task for _, task in tasks])
            self._is_leading = False

    async def _stop_leader_runnables(self, task: asyncio.Task[None]) -> None:
        if not self._is_leading:
            task.cancel()
        # The leader's runnables have their own deadline; only the Lease remains to be released.
        remaining = self._deadline - asyncio.get_running_loop().time()
        await asyncio.wait((task,), timeout=remaining + 2 * _CANCEL_TIMEOUT_SECONDS)
        await _cancel_tasks([task])

    async def _stop_runnables(self, tasks: Sequence[tuple[Runnable, asyncio.Task[None]]]) -> None:
        """Stop runnables, wait for them until the deadline, then cancel them."""
        for runnable, task in tasks:
            if isinstance(runnable, GracefulRunnable):
                runnable.stop()
            else:
                task.cancel()
        pending = {task for _, task in tasks if not task.done()}
        hurry = asyncio.ensure_future(self._skip_grace.wait())
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
            _log.warning(
                "runnable did not stop before the grace period ended, cancelled",
                runnable=task.get_name(),
            )
        await _cancel_tasks(list(pending))

    def _start_task(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        return asyncio.create_task(self._run_to_failure(name, work), name=name)

    async def _run_to_failure(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await work()
        except Exception as error:
            cause = _unwrap_cause(error)
            if self._failure is None and not self.is_stopping:
                self._failure = RunnableFailed(name, cause)
                self._failure.__cause__ = cause
            else:
                _log.exception("runnable failed while stopping", runnable=name)
            self.stop(f"{name} failed")
        else:
            if not self.is_stopping:
                self._failure = RunnableFailed(name, None)
                self.stop(f"{name} ended unexpectedly")

    @contextmanager
    def _handle_signals(self) -> Generator[None]:
        """Stop at the first signal; at the second, skip the grace period."""
        loop = asyncio.get_running_loop()

        def on_signal(name: str) -> None:
            if self.is_stopping:
                self._skip_grace.set()
            self.stop(name)

        handled = (signal.SIGTERM, signal.SIGINT)
        for number in handled:
            loop.add_signal_handler(number, on_signal, number.name)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


@contextmanager
def _ignore_signals() -> Generator[None]:
    yield


async def _cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    if pending:
        _, unfinished = await asyncio.wait(pending, timeout=_CANCEL_TIMEOUT_SECONDS)
        for task in unfinished:
            _log.error("runnable ignored cancellation, abandoned", runnable=task.get_name())


def _unwrap_cause(error: Exception) -> Exception:
    """The failure inside exception groups of one."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return _unwrap_cause(group.exceptions[0]) if len(group.exceptions) == 1 else group
