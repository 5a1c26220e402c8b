"""Simulated nodes beside a cluster that goes on without them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.kube import Client, Reflector
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.simulation import PODS
from tests.local.embedded_cluster import LoopClock


@asynccontextmanager
async def running_simulation(client: Client, fleet: Fleet) -> AsyncGenerator[SimulatedNodes]:
    """A process that simulates nodes."""
    pods = Reflector(client, PODS)
    nodes = SimulatedNodes(client, fleet, LoopClock().now, pods)
    tasks = [asyncio.create_task(part.run()) for part in (pods, nodes)]
    await nodes.wait_registered()
    try:
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
