"""Restarts a component that fails, so that nothing else ends with it.

A *component* is a group of parts that live and end together: a scheduler with its caches. What a
part that failed has in memory may be half done, so nothing of it is used again: the component is
built anew, as if its process had been restarted. Restarts back off while they keep failing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.kube.backoff import Backoff
from kilonova.kube.logging import get_logger
from kilonova.kube.manager import Manager, Part

_STABLE_SECONDS = 60.0
"""A component that has run for so long has recovered."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """How a component is doing: `problem` says why it failed, until it has recovered."""

    restarts: int = 0
    """How often it has been restarted since it last ran well."""
    problem: str = ""


class Supervisor:
    """Runs a component, and runs it again when it fails: a part that never fails itself.

    `build` makes its parts, at first when the supervisor is made (what raises then is for the
    caller), then for every restart. `report` hears when it fails and when it has recovered.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], Sequence[Part]],
        *,
        report: Callable[[str, ComponentHealth], None] = lambda name, health: None,
        grace: float = 2.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self._build = build
        self._built: Sequence[Part] | None = build()
        self._report = report
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
                self._tell(ComponentHealth(self._failures, problem))
                await self._pause(delay)

    def stop(self) -> None:
        """Let `run` return when the parts have ended in good order."""
        self._stopping.set()
        if self._manager is not None:
            self._manager.stop()

    async def _run_once(self) -> None:
        parts, self._built = self._built, None
        manager = self._manager = Manager(grace=self._grace)
        manager.add(*(self._build() if parts is None else parts))
        recovery = asyncio.get_running_loop().call_later(_STABLE_SECONDS, self._recovered)
        try:
            await manager.run(signals=False)
        finally:
            recovery.cancel()
            self._manager = None

    def _recovered(self) -> None:
        if self._failures:
            self._failures = 0
            _log.info("component has recovered", component=self.name)
            self._tell(ComponentHealth())

    def _tell(self, health: ComponentHealth) -> None:
        """Report; where that fails (a full disk, say), the component is still restarted."""
        try:
            self._report(self.name, health)
        except Exception:
            _log.exception("component health could not be reported", component=self.name)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
