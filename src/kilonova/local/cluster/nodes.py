"""The nodes of an embedded cluster: simulated ones, and this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kilonova.kube import Client, Runnable
from kilonova.local.apiserver.admission import (
    Plugin,
)
from kilonova.local.apiserver.storage import RevisionStore
from kilonova.local.apiserver.storage.lease_renewer import StoreLeaseRenewer
from kilonova.local.clock import Clock
from kilonova.local.cluster.settings import ClusterSettings
from kilonova.local.controllers import (
    ControllerContext,
)
from kilonova.local.controllers.shared.indexes import pods_by_node
from kilonova.local.data_directory import SHIM_DIRECTORY
from kilonova.local.kubelet_api import Kubelets
from kilonova.local.simnodes import SimulatedNodes

if TYPE_CHECKING:
    from kilonova.local.processnode.cri.client import ShimRuntime
    from kilonova.local.processnode.executables import ProgramFinder
    from kilonova.local.processnode.kubelet.assembly import ProcessNodeAssembly
    from kilonova.local.processnode.kubelet.machine.gpus import InstalledGpus


class ClusterNodes:
    """The simulated nodes and the process node of a cluster, as far as its settings have any."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        kubelets: Kubelets,
        client: Callable[[str], Client],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._kubelets = kubelets
        self._client = client
        self._simulated_nodes: SimulatedNodes | None = None
        self._process_node_parts: ProcessNodeAssembly | None = None
        self._installed_gpus: InstalledGpus | None = None
        self._program_finder: ProgramFinder | None = None
        self._are_pods_stopped = False

    async def find_gpus(self) -> None:
        """Find the GPUs of this machine, if it is a node and the settings do not name them."""
        if self._settings.process_node and self._settings.gpus is None:
            from kilonova.local.processnode.kubelet.machine.gpus import find_installed_gpus

            # In a thread: with GPUs it takes seconds.
            self._installed_gpus = await asyncio.to_thread(find_installed_gpus)

    def build_simulated_nodes(
        self, context: ControllerContext, store: RevisionStore, *, has_agents: bool
    ) -> list[Runnable]:
        """The nodes of the fleet; their heartbeats go to the storage directly. With agents, these
        publish their GPUs."""
        client = self._client("system:serviceaccount:kube-system:simulated-nodes")
        pods = pods_by_node(context)
        fleet = self._settings.fleet
        heartbeats = StoreLeaseRenewer(store)
        self._simulated_nodes = SimulatedNodes(
            client,
            fleet,
            self._clock.now,
            pods,
            exclusive=True,
            lease_renewer=heartbeats,
            kubelets=self._kubelets,
            has_agents=has_agents,
        )
        return [self._simulated_nodes]

    def build_shim_runtime(self, exit_stack: AsyncExitStack) -> ShimRuntime | None:
        """The runtime for containers of the process node, if this machine is one."""
        settings = self._settings
        if not settings.process_node or settings.data is None:
            return None
        # Modules that only a process node needs are imported with it.
        from kilonova.local.processnode.cri.client import ShimRuntime

        runtime = ShimRuntime(settings.data / SHIM_DIRECTORY)

        async def shut_down_shim() -> None:
            if self._are_pods_stopped:
                await runtime.shutdown()

        exit_stack.push_async_callback(shut_down_shim)
        return runtime

    def build_process_node(self, runtime: ShimRuntime) -> Sequence[Runnable]:
        """This machine as a node."""
        from kilonova.local.processnode.kubelet.assembly import build_process_node
        from kilonova.local.processnode.kubelet.machine.gpus import InstalledGpus

        settings = self._settings
        assert settings.data is not None
        gpus = self._installed_gpus if settings.gpus is None else InstalledGpus(settings.gpus)
        assert gpus is not None
        self._process_node_parts = build_process_node(
            self._client,
            self._clock,
            runtime,
            settings.data,
            gpus=gpus,
            images=self.get_program_finder().images,
            allowed_paths=settings.allowed_host_paths,
        )
        self._kubelets.register(self._process_node_parts.name, self._process_node_parts.kubelet)
        return self._process_node_parts.parts

    def build_service_proxy(
        self, context: ControllerContext, runtime: ShimRuntime, url: str
    ) -> Sequence[Runnable]:
        """Virtual addresses and names of Services, for pods of the process node."""
        from kilonova.local.processnode.services import build_service_components

        return build_service_components(context, runtime.set_routes, url)

    def build_image_toleration(self, store: RevisionStore) -> list[Plugin]:
        """The admission plugin that adds the toleration of the image taint to pods."""
        if not self._settings.process_node:
            return []
        from kilonova.local.apiserver.admission.plugins.image_toleration import ImageToleration

        nodes = store.collection("nodes")
        return [
            ImageToleration(
                nodes,
                lambda: self._process_node_parts.name if self._process_node_parts else "",
                self.get_program_finder().explain_pod,
            )
        ]

    def get_program_finder(self) -> ProgramFinder:
        """What finds programs on this machine, read when first needed; `ImageTableError` for an
        invalid file."""
        if self._program_finder is None:
            from kilonova.local.processnode.executables import ProgramFinder
            from kilonova.local.processnode.images import load_image_table

            self._program_finder = ProgramFinder(load_image_table(self._settings.images))
        return self._program_finder

    @property
    def registered_nodes(self) -> tuple[int, int]:
        """How many nodes of the fleet have registered, and how many there are."""
        return (
            self._simulated_nodes.registration_progress
            if self._simulated_nodes is not None
            else (0, 0)
        )

    async def wait_simulated_nodes(self) -> None:
        """Wait until the nodes of the fleet have registered."""
        if self._simulated_nodes is not None:
            await self._simulated_nodes.wait_registered()

    async def wait_process_node(self) -> None:
        """Wait until this machine has registered as a node, if it is one."""
        if self._process_node_parts is not None:
            await self._process_node_parts.node.wait_registered()

    async def stop_pods(self, progress: Callable[[int, float], None]) -> None:
        """Terminate the processes of all pods; `progress` is called with their number and the
        maximum time left.

        Otherwise they keep running when the cluster stops, and the next one on its data adopts
        them.
        """
        if self._process_node_parts is not None:
            await self._process_node_parts.node.stop_pods(progress)
            self._are_pods_stopped = True
