"""Simulated nodes: they register, stay alive, have their troubles, and take pods through life."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from random import Random

from kilonova.kube import Client, Reflector
from kilonova.kube.events import Recorder
from kilonova.kube.logging import get_logger
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.nodes import objects
from kilonova.local.nodes.fleet import Fleet, shapes
from kilonova.local.nodes.heartbeats import Heartbeats, RequestedHeartbeats
from kilonova.local.nodes.lives import PodLives
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.registration import Registration
from kilonova.local.nodes.timetable import Timetable
from kilonova.local.nodes.trouble import NODES, SimNode, Trouble

_log = get_logger(__name__)

__all__ = ["PODS", "SimulatedNodes"]


class SimulatedNodes:
    """Plays a fleet. `now` gives the time of day; delays run on the event loop's clock.

    `alone` says that no other process plays nodes on this cluster: then those that the fleet
    does not have are left from another time, and are taken away.
    """

    name = "simulated nodes"

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        now: Callable[[], datetime],
        pods: Reflector[Pod],
        *,
        alone: bool = False,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._fleet = fleet
        self._alone = alone
        self._machines = {shape.name: Machine.of(shape) for shape in shapes(fleet)}
        self._registration = Registration(
            client, now, fleet.heartbeat_seconds, heartbeats or RequestedHeartbeats(client)
        )
        self._nodes: Reflector[SimNode] = Reflector(
            client, NODES, labels=f"{objects.NODE_KIND}=sim"
        )
        random = Random(fleet.seed)  # noqa: S311 (a simulation)
        names = Random(fleet.seed)  # noqa: S311 (likewise; what is told changes no fate)
        self._events = Recorder(
            client,
            "simulated-node",
            clock=lambda: now().timestamp(),
            wall=now,
            new_id=lambda: f"{names.getrandbits(64):016x}",
        )
        self._timetable = Timetable()
        self._pods = pods
        self._lives = PodLives(
            client, pods, self._machines, self._timetable, random, now, self._events
        )
        self._trouble = Trouble(
            client,
            self._nodes,
            self._machines,
            self._lives,
            self._timetable,
            random,
            now,
            self._events,
        )
        self._registered = asyncio.Event()

    @property
    def names(self) -> list[str]:
        return list(self._machines)

    @property
    def registered(self) -> tuple[int, int]:
        """How many nodes are in the API, as far as this process has seen to it, and of how many."""
        return self._registration.done, len(self._machines)

    async def wait_registered(self) -> None:
        """Until all nodes of the fleet are in the API."""
        await self._registered.wait()

    async def run(self) -> None:
        """Play until cancelled."""
        machines = list(self._machines.values())
        if self._alone:
            await self._registration.retire_others(self._machines)
        await self._registration.register(machines)
        self._registered.set()
        if not machines:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._events.run())
            group.create_task(self._registration.keep_alive(machines))
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            stops = [self._trouble.begin(self._fleet), self._lives.begin(_tell_of_failure)]
            try:
                await self._timetable.run()
            finally:
                for stop in stops:
                    stop()


def _tell_of_failure(pod: str, error: Exception) -> None:
    _log.error("a pod is not played", pod=pod, error=f"{type(error).__name__}: {error}")
