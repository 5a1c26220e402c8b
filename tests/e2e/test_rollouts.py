"""Sets of pods as kube-controller-manager has them, and as the embedded cluster does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client, Reflector
from kilonova.kube.access import connect
from kilonova.local.nodes import Fleet, SimulatedNodes
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.nodes.sim import PODS as SIM_PODS
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.local.controllers.apps.scenes import SCENES, picture
from tests.local.embedded_cluster import running

_NODES = Fleet(nodes=(NodeGroup("n", 3, start="20ms", stop="20ms"),))


@asynccontextmanager
async def genuine(folder: Path) -> AsyncGenerator[Client]:
    """Kubernetes with all its controllers and its scheduler; the nodes are simulated ones."""
    with ControlPlane.start(folder, controllers="*", with_scheduler=True) as plane:
        async with connect(plane.access.kubeconfig) as client:
            pods = Reflector(client, SIM_PODS)
            nodes = SimulatedNodes(client, _NODES, lambda: datetime.now(UTC), pods)
            parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
            try:
                await nodes.wait_registered()
                yield client
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)


async def played(client: Client) -> dict[str, Any]:
    """What each scene leaves behind, or how it failed."""
    left: dict[str, Any] = {}
    for name, scene in SCENES.items():
        await scene(client)
        left[name] = await picture(client, name)
    return left


async def test_every_scene_ends_as_on_kubernetes(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    async with genuine(tmp_path) as client:
        expected = await played(client)
    async with running(fleet=_NODES) as cluster:
        found = await played(cluster.client("test"))
    for name, scene in expected.items():
        for kind, objects in scene.items():
            assert found[name][kind] == objects, f"{kind} of scene {name}"
