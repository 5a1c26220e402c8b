"""The rooms of a cluster that runs, and how far each of them is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, cast

from kilonova.kube import Part, Reflector

RoomState = Literal["running", "starting", "off"]
NAMES = ("api", "nodes", "processNode", "operator", "scheduler", "console")


class Rooms:
    """Who lives in a cluster. `tell` hears of every change, once the rooms are being opened.

    A room is off unless it was added. It runs when it knows what it has to know.
    """

    def __init__(self) -> None:
        self._states: dict[str, RoomState] = dict.fromkeys(NAMES, "off")
        self._waits: dict[str, Callable[[], Awaitable[None]]] = {}

    @property
    def states(self) -> Mapping[str, RoomState]:
        """All of them, by name."""
        return self._states

    def add(self, name: str, wait: Callable[[], Awaitable[None]]) -> None:
        """One that is starting, and what says that it runs."""
        self._states[name] = "starting"
        self._waits[name] = wait

    def add_parts(self, name: str, parts: Sequence[Part]) -> None:
        """One that runs when the caches among its parts are filled."""
        caches = [cast("Reflector[Any]", part) for part in parts if isinstance(part, Reflector)]

        async def filled() -> None:
            for cache in caches:
                await cache.wait_synced()

        self.add(name, filled)

    async def open(self, tell: Callable[[Mapping[str, RoomState]], None]) -> None:
        """Return when all of them run."""

        async def opened(name: str, wait: Callable[[], Awaitable[None]]) -> None:
            await wait()
            self._states[name] = "running"
            tell(self._states)

        tell(self._states)
        async with asyncio.TaskGroup() as group:
            for name, wait in self._waits.items():
                group.create_task(opened(name, wait))
