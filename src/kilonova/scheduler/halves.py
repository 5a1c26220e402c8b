"""Gives back what a gang has that never had all of it.

A gang is bound as a whole; but pods may go, nodes may go, a scheduler may die in between. What was
bound of a gang that never was wholly scheduled, and that cannot be finished within a time, only
keeps room from others: it is evicted, and the gang waits as a whole again.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from kilonova.api.podgang import PodGang
from kilonova.kube import Store
from kilonova.kube.logging import get_logger
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_LOOKS = 6
"""So many times within that time it is looked who is due."""


class Halves:
    """A part: looks after gangs of which only some pods have a node."""

    name = "halves"

    def __init__(
        self,
        world: World,
        gangs: Store[PodGang],
        evictions: Evictions,
        now: Callable[[], datetime],
        errors: ErrorReporter,
        *,
        after: float,
    ) -> None:
        self._world = world
        self._gangs = gangs
        self._evictions = evictions
        self._now = now
        self._errors = errors
        self._after = after

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._after / _LOOKS)
            due = self._now().timestamp() - self._after
            for name in [name for name, since in self._world.halves.items() if since <= due]:
                await self._errors.contain("partial gang", name, self._give_back(name))

    async def _give_back(self, name: str) -> None:
        namespace, _, plain = name.rpartition("/")
        gang = self._gangs.get((namespace, plain))
        if gang is None or gang.status.last_scheduled:
            return
        pods = self._world.bound_pods(gang)
        if pods:
            _log.warning("gang cannot be finished and is given back", gang=name, pods=len(pods))
            await self._evictions.give_up(pods, name)
