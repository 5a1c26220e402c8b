"""Plays a fleet of simulated nodes on any Kubernetes: `KUBECONFIG-FILE FLEET-FILE`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from kilonova.kube import Reflector, connect
from kilonova.local.nodes import SimulatedNodes, read_fleet
from kilonova.local.nodes.sim import PODS


async def play(kubeconfig: Path, fleet: Path) -> None:
    """Until the process is ended."""
    async with connect(kubeconfig) as client:
        pods = Reflector(client, PODS)
        nodes = SimulatedNodes(client, read_fleet(fleet), lambda: datetime.now(UTC), pods)
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run())
            group.create_task(nodes.run())


if __name__ == "__main__":
    uvloop.run(play(Path(sys.argv[1]), Path(sys.argv[2])))
