"""States of the components of a running cluster: off, starting, running, degraded."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from kilonova.component.embedded import ReadyRunnable
from kilonova.component.health import describe_failure
from kilonova.kube import ComponentHealth, Reflector, Runnable

ComponentState = Literal["running", "starting", "degraded", "off"]
StateListener = Callable[[Mapping[str, ComponentState], Mapping[str, str]], None]
"""Receives the state of each component, and the problems of degraded ones."""


class ComponentStates:
    """The state of each component; a listener is notified of changes from `wait_started` on.

    A component is off unless it was added, starting until it is ready, and degraded from a failure
    until it has run without one for a while.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._states: dict[str, ComponentState] = dict.fromkeys(names, "off")
        self._readiness: dict[str, Callable[[], Awaitable[None]]] = {}
        self._problems: dict[str, str] = {}
        self._failed = {name: asyncio.Event() for name in self._states}
        self._listener: StateListener | None = None

    @property
    def states(self) -> Mapping[str, ComponentState]:
        """The state of all components, by name."""
        return self._states

    def add(self, name: str, wait_ready: Callable[[], Awaitable[None]]) -> None:
        """Add a starting component; `wait_ready` returns when it runs. The state of a restarted
        one comes from `report_health`."""
        if name not in self._readiness:
            self._readiness[name] = wait_ready
            if self._states[name] == "off":  # degraded if its first build has failed
                self._states[name] = "starting"

    def add_runnables(self, name: str, runnables: Sequence[Runnable]) -> None:
        """Add a starting component, which is ready when its reflectors have synced and its child
        processes are ready."""

        async def wait_ready() -> None:
            for each in runnables:
                if isinstance(each, Reflector):
                    await cast("Reflector[Any]", each).wait_for_sync()
                elif isinstance(each, ReadyRunnable):
                    await each.wait_ready()

        self.add(name, wait_ready)

    def report_health(self, name: str, health: ComponentHealth) -> None:
        """Record the health of a component that has failed or recovered."""
        if health.problem:
            self._states[name] = "degraded"
            self._problems[name] = describe_failure(health)
            self._failed[name].set()
        else:
            self._states[name] = "running"
            self._problems.pop(name, None)
        if self._listener is not None:
            self._listener(self._states, self._problems)

    async def wait_started(self, listener: StateListener) -> None:
        """Return when every component runs or has failed; a failed one does not block the start."""

        async def wait_component(name: str, wait_ready: Callable[[], Awaitable[None]]) -> None:
            outcomes = (wait_ready(), self._failed[name].wait())
            tasks = [asyncio.ensure_future(each) for each in outcomes]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
            if self._states[name] == "starting":
                tasks[0].result()
                self._states[name] = "running"
                listener(self._states, self._problems)

        self._listener = listener
        listener(self._states, self._problems)
        async with asyncio.TaskGroup() as group:
            for name, wait_ready in self._readiness.items():
                group.create_task(wait_component(name, wait_ready))
