"""All built-in controllers of an embedded cluster, started and stopped together."""

import asyncio
from collections.abc import Callable

from kilonova.kube import Client, Manager, Part, PartFailed, Reflector
from kilonova.kube.events import Recorder
from kilonova.local.clock import Clock
from kilonova.local.controllers import fitting
from kilonova.local.controllers.definitions import (
    DEFINITIONS,
    DefinitionCleaner,
    NameAcceptance,
)
from kilonova.local.controllers.events import EventExpiry
from kilonova.local.controllers.garbage import GarbageCollector
from kilonova.local.controllers.namespaces import NAMESPACES, NamespaceController
from kilonova.local.controllers.placement import Placement
from kilonova.local.logs import PodLogs
from kilonova.local.nodes import Fleet, SimulatedNodes
from kilonova.local.nodes.logs import SimulatedLogs
from kilonova.local.nodes.sim import PODS as SIM_PODS


class Controllers:
    """Builds the parts; each acts under a name of its own."""

    def __init__(
        self,
        client: Callable[[str], Client],
        fleet: Fleet,
        clock: Clock,
        ca: str,
        logs: PodLogs,
    ) -> None:
        def account(name: str) -> Client:
            return client(f"system:serviceaccount:kube-system:{name}")

        definitions = Reflector(account("definition-controller"), DEFINITIONS)
        namespaces = Reflector(account("namespace-controller"), NAMESPACES)
        scheduler = account("placement")
        pods = Reflector(scheduler, fitting.PODS)
        nodes = Reflector(scheduler, fitting.NODES)
        events = Recorder(scheduler, fitting.SCHEDULER_NAME, clock=clock.monotonic, wall=clock.now)
        sim = account("simulated-nodes")
        sim_pods = Reflector(sim, SIM_PODS)
        self._simulated = SimulatedNodes(sim, fleet, clock.now, sim_pods, alone=True)
        for name in self._simulated.names:
            logs.register(name, SimulatedLogs())
        self._parts: list[Part] = [
            definitions,
            namespaces,
            pods,
            nodes,
            sim_pods,
            GarbageCollector(account("garbage-collector"), definitions),
            NamespaceController(
                account("namespace-controller"), namespaces, ca, clock
            ).controller(),
            DefinitionCleaner(account("definition-controller"), definitions).controller(),
            NameAcceptance(account("definition-controller"), definitions, clock).controller(),
            EventExpiry(account("event-expiry"), clock),
            events,
            Placement(scheduler, pods, nodes, clock, events).controller,
            self._simulated,
        ]
        self._manager = Manager(grace=2.0)
        self._manager.add(*self._parts)
        self._task: asyncio.Task[None] | None = None

    def start(self, on_failure: Callable[[Exception], None]) -> None:
        """Start all parts. If one of them fails, all stop, and `on_failure` is told why."""
        self._task = asyncio.create_task(self._run(on_failure), name="controllers")

    async def _run(self, on_failure: Callable[[Exception], None]) -> None:
        try:
            await self._manager.run(signals=False)
        except PartFailed as failure:
            on_failure(failure)

    async def wait_settled(self) -> None:
        """Until the nodes of the fleet have registered, or the controllers have stopped."""
        assert self._task is not None
        registered = asyncio.create_task(self._simulated.wait_registered())
        try:
            await asyncio.wait((registered, self._task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            registered.cancel()

    async def stop(self) -> None:
        """Let the parts end, those that write first."""
        if self._task is not None:
            self._manager.stop()
            await self._task
