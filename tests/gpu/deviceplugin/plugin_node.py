"""A node with a device plugin for tests: simulated GPUs, the MIG engine, a kubelet on sockets."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kilonova.gpu.agent.engine_instances import EngineInstances
from kilonova.gpu.cdi import CdiFolder
from kilonova.gpu.deviceplugin import Allocator, DevicePluginServer
from kilonova.gpu.devices.simulated import SimulatedBackend
from kilonova.gpu.kubelet import HoldingStore, InventoryFeed, KubeletPaths, open_holdings
from kilonova.gpu.kubelet.engine_holders import list_holders
from kilonova.gpu.kubelet.pod_resources import PodResources
from kilonova.gpu.mig.engine import MigEngine
from tests.gpu.deviceplugin.node_pods import PodList
from tests.gpu.devices.machines import simulate
from tests.gpu.kubelet.plugin_kubelet import PluginKubelet, running_kubelet
from tests.gpu.mig.engines import running_engine

_FAST = 50.0
"""How much faster than on a node the plugin polls."""


class PluginNode:
    """Everything of the node that outlives its device plugin."""

    def __init__(self, folder: Path, paths: KubeletPaths, persona: str) -> None:
        self.folder = folder
        self.paths = paths
        self.backend: SimulatedBackend = simulate(persona)
        self.feed = InventoryFeed(self.backend.read_inventory())
        self.pods = PodList()
        self.cdi = folder / "cdi"
        self.checkpoint = folder / "holdings.json"
        self.kubelet: PluginKubelet
        self.engine: MigEngine
        self.store: HoldingStore
        self.allocator: Allocator

    @property
    def uuids(self) -> list[str]:
        return [each.uuid for each in self.feed.inventory.devices]

    def specs(self) -> list[str]:
        """The names of the CDI specs."""
        files = self.cdi.iterdir() if self.cdi.exists() else ()
        return sorted(each.name.removeprefix("kilonova.dev-gpu_") for each in files)

    async def admit(self, *pods: Any) -> None:
        """Bind pods to the node, and let the kubelet admit them."""
        self.pods.pods.extend(pods)
        for pod in pods:
            await self.kubelet.admit(pod)

    def visible(self, pod: Any, container: str = "c0") -> list[str]:
        """What a container sees, by the index of the GPU or the UUID of the instance."""
        env = self.kubelet.answers[pod.uid, container]
        assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"]
        uuids = env["NVIDIA_VISIBLE_DEVICES"].split(",")
        return [str(self.uuids.index(each)) if each in self.uuids else each for each in uuids]

    @asynccontextmanager
    async def running_plugin(
        self, crash_at: str = "", **options: Any
    ) -> AsyncGenerator[DevicePluginServer]:
        """The device plugin, as one process of the agent. `crash_at` is the step at which it is
        killed: the answer is lost, and nothing is cleaned up."""
        cdi = CdiFolder(self.cdi)
        self.store = await open_holdings(self.checkpoint, cdi)
        resources = PodResources(self.paths.pod_resources)
        holders = list_holders(self.store.holdings)
        async with running_engine(self.backend, self.folder / "mig", holders=holders) as engine:
            self.engine = engine
            instances = EngineInstances(engine, lambda: None)
            crash_points: dict[str, tuple[Any, str, bool]] = {
                "before instances": (instances, "ensure_instances", False),
                "after instances": (instances, "ensure_instances", True),
                "after spec": (cdi, "write", True),
                "before checkpoint": (self.store, "put", False),
                "after checkpoint": (self.store, "put", True),
            }
            if crash_at:
                _crash_at(*crash_points[crash_at])
            self.allocator = Allocator(
                self.feed,
                self.pods,
                instances,
                self.store,
                cdi,
                resources.read,
                sleep=sleep_briefly,
                **options,
            )
            server = DevicePluginServer(self.allocator, self.feed, self.paths, sleep=sleep_briefly)
            running = asyncio.create_task(server.run())
            try:
                yield server
            finally:
                running.cancel()
                await asyncio.wait([running])
                await resources.close()
                if not running.cancelled():
                    running.result()


class Killed(Exception):
    """The process was killed: what is to be cleaned up after failures is not."""


def _crash_at(target: Any, method: str, after: bool) -> None:
    original = getattr(target, method)

    async def crash(*arguments: Any) -> Any:
        if after:
            await original(*arguments)
        raise Killed(method)

    setattr(target, method, crash)


async def sleep_briefly(seconds: float) -> None:
    await asyncio.sleep(seconds / _FAST)


@asynccontextmanager
async def plugin_node(
    folder: Path, persona: str = "h100:4", **kubelet_options: Any
) -> AsyncGenerator[PluginNode]:
    """A node whose kubelet runs, without a plugin yet."""
    with tempfile.TemporaryDirectory(prefix="kp-") as short:  # paths of sockets are short
        node = PluginNode(folder, KubeletPaths(Path(short)), persona)
        async with running_kubelet(node.paths, **kubelet_options) as kubelet:
            node.kubelet = kubelet
            yield node
