"""The rooms of a cluster that runs, and how far each of them is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, cast

from kilonova.kube import ComponentHealth, Part, Reflector

RoomState = Literal["running", "starting", "degraded", "off"]
NAMES = ("api", "controllers", "nodes", "processNode", "operator", "scheduler", "console")
Tell = Callable[[Mapping[str, RoomState], Mapping[str, str]], None]
"""Hears the state of each, and what is wrong with those that are degraded."""


class Rooms:
    """Who lives in a cluster. `tell` hears of every change, once the rooms are being opened.

    A room is off unless it was added. It runs when it knows what it has to know, and is degraded
    from a failure until it has run well for a while.
    """

    def __init__(self) -> None:
        self._states: dict[str, RoomState] = dict.fromkeys(NAMES, "off")
        self._waits: dict[str, Callable[[], Awaitable[None]]] = {}
        self._problems: dict[str, str] = {}
        self._failed = {name: asyncio.Event() for name in NAMES}
        self._tell: Tell | None = None

    @property
    def states(self) -> Mapping[str, RoomState]:
        """All of them, by name."""
        return self._states

    def add(self, name: str, wait: Callable[[], Awaitable[None]]) -> None:
        """One that is starting, and what says that it runs. Of one that is started again
        `report` tells."""
        if name not in self._waits:
            self._states[name] = "starting"
            self._waits[name] = wait

    def add_parts(self, name: str, parts: Sequence[Part]) -> None:
        """One that runs when the caches among its parts are filled."""
        caches = [cast("Reflector[Any]", part) for part in parts if isinstance(part, Reflector)]

        async def filled() -> None:
            for cache in caches:
                await cache.wait_synced()

        self.add(name, filled)

    def report(self, name: str, health: ComponentHealth) -> None:
        """How a component does that has failed, or has recovered."""
        if health.problem:
            times = "once" if health.restarts == 1 else f"{health.restarts} times"
            self._states[name] = "degraded"
            self._problems[name] = f"failed {times}, is being restarted: {health.problem}"
            self._failed[name].set()
        else:
            self._states[name] = "running"
            self._problems.pop(name, None)
        if self._tell is not None:
            self._tell(self._states, self._problems)

    async def open(self, tell: Tell) -> None:
        """Return when all of them run, or have failed: the others can be used meanwhile."""

        async def opened(name: str, wait: Callable[[], Awaitable[None]]) -> None:
            tasks = [asyncio.ensure_future(each) for each in (wait(), self._failed[name].wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
            if self._states[name] == "starting":
                tasks[0].result()
                self._states[name] = "running"
                tell(self._states, self._problems)

        self._tell = tell
        tell(self._states, self._problems)
        async with asyncio.TaskGroup() as group:
            for name, wait in self._waits.items():
                group.create_task(opened(name, wait))
