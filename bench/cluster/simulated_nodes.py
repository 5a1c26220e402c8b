"""Simulates nodes on any Kubernetes cluster: `KUBECONFIG-FILE FLEET-FILE`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from kilonova.kube import Reflector, connect
from kilonova.local.simnodes import SimulatedNodes, read_fleet
from kilonova.local.simnodes.simulation import PODS


async def run_simulated_nodes(kubeconfig: Path, fleet: Path) -> None:
    """Run until the process is terminated."""
    async with connect(kubeconfig) as client:
        pods = Reflector(client, PODS)
        nodes = SimulatedNodes(client, read_fleet(fleet), lambda: datetime.now(UTC), pods)
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run())
            group.create_task(nodes.run())


if __name__ == "__main__":
    uvloop.run(run_simulated_nodes(Path(sys.argv[1]), Path(sys.argv[2])))
