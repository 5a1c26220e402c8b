"""Restarts a component that fails, without affecting the rest of the process.

A *component* is a group of runnables with one lifetime, such as a scheduler with its caches. The
memory of a failed runnable may be inconsistent, so nothing of it is reused: the component is built
again, as if its process had been restarted. Restarts back off while they keep failing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.kube.controllers.manager import Manager, Runnable
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.wait.backoff import Backoff

_STABLE_SECONDS = 60.0
"""A component that has run for this long has recovered."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """The health of a component: `problem` is the failure, until it has recovered."""

    restarts: int = 0
    """Restarts since it last recovered."""
    problem: str = ""


class Supervisor:
    """Runs a component and restarts it when it fails: a runnable that never fails itself.

    `build` creates the runnables, first in the constructor, then for every restart. If the first
    one fails, the exception reaches the caller, unless the component is `optional`: then `run`
    begins with that failure. `on_health_change` is called when the component fails and when it has
    recovered.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], Sequence[Runnable]],
        *,
        on_health_change: Callable[[str, ComponentHealth], None] = lambda name, health: None,
        optional: bool = False,
        grace: float = 2.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self._build = build
        self._prebuilt: Sequence[Runnable] | Exception | None = None
        try:
            self._prebuilt = build()
        except Exception as error:
            if not optional:
                raise
            self._prebuilt = error
        self._on_health_change = on_health_change
        self._grace = grace
        self._backoff = backoff or Backoff(0.5, 60.0)
        self._stopping = asyncio.Event()
        self._manager: Manager | None = None
        self._failures = 0

    async def run(self) -> None:
        """Run until stopped or cancelled."""
        while not self._stopping.is_set():
            try:
                await self._run_once()
            except Exception as error:
                self._failures += 1
                delay = self._backoff.delay(self._failures)
                _log.exception(
                    "component failed, will be restarted",
                    component=self.name,
                    failures=self._failures,
                    delay=round(delay, 3),
                )
                problem = str(error) or type(error).__name__
                self._report_health(ComponentHealth(self._failures, problem))
                await self._wait_for_restart(delay)

    def stop(self) -> None:
        """Let `run` return when the runnables have stopped."""
        self._stopping.set()
        if self._manager is not None:
            self._manager.stop()

    async def _run_once(self) -> None:
        prebuilt, self._prebuilt = self._prebuilt, None
        if isinstance(prebuilt, Exception):
            raise prebuilt
        manager = self._manager = Manager(grace=self._grace)
        manager.add(*(self._build() if prebuilt is None else prebuilt))
        recovery = asyncio.get_running_loop().call_later(_STABLE_SECONDS, self._mark_recovered)
        try:
            await manager.run(signals=False)
        finally:
            recovery.cancel()
            self._manager = None

    def _mark_recovered(self) -> None:
        if self._failures:
            self._failures = 0
            _log.info("component recovered", component=self.name)
            self._report_health(ComponentHealth())

    def _report_health(self, health: ComponentHealth) -> None:
        """Report the health; if that fails (a full disk, say), the component is still restarted."""
        try:
            self._on_health_change(self.name, health)
        except Exception:
            _log.exception("component health not reported", component=self.name)

    async def _wait_for_restart(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
