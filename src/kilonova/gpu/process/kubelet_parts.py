"""What the agent serves to the kubelet: the device plugin and the DRA driver, with one store of
holdings, one folder of CDI specs, one MIG engine and one set of MPS daemons."""

import asyncio
from collections.abc import Sequence

from kilonova.component.process.process import Process
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.resources import NODES
from kilonova.gpu.cdi import CdiFolder, HostDriver, find_driver
from kilonova.gpu.deviceplugin import Allocator, ApiPods, DevicePluginServer, MpsPodSharing
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.dra import ClaimPreparer, DraDriver, NodeClaimSharing, SlicePublisher
from kilonova.gpu.kubelet import KubeletPaths
from kilonova.gpu.kubelet.engine_holders import list_holders
from kilonova.gpu.kubelet.holdings import open_holdings
from kilonova.gpu.kubelet.pod_resources import PodResources
from kilonova.gpu.process.options import AgentOptions
from kilonova.gpu.process.sharing import MpsKeeper, build_mps
from kilonova.gpu.sharing.time_slicing import NvidiaSmiTimeSlice
from kilonova.kube import Runnable

_HOLDINGS = "holdings.json"


async def build_kubelet_parts(
    process: Process, options: AgentOptions, local: LocalAgent, backend: GpuBackend
) -> Sequence[Runnable]:
    """What has to run; nothing where neither is served."""
    if options.kubelet_dir is None:
        return ()
    paths = KubeletPaths(options.kubelet_dir, str(options.kubelet_dir))
    cdi = CdiFolder(options.cdi_dir)
    store = await open_holdings(options.state_dir / _HOLDINGS, cdi)
    # Until the plugins have restored them, what containers have must not be taken for unused.
    local.instances.adopt(list_holders(store.holdings))
    local.read_holdings = lambda: store.holdings
    driver = await _find_driver(backend)
    mps = await build_mps(
        options.state_dir / "mps-daemons", backend, local.agent.inventory, store.holdings
    )
    allocator = Allocator(
        local.feed,
        ApiPods(process.client, options.node),
        local.instances,
        store,
        cdi,
        PodResources(paths.pod_resources).read,
        driver=driver,
        sharing=None if mps is None else MpsPodSharing(mps, local.feed),
        shares_per_gpu=options.shares_per_gpu,
    )
    runnables: list[Runnable] = []
    if mps is not None:
        runnables.append(MpsKeeper(mps))
    if options.device_plugin:
        runnables.append(_OnceDecided(local, DevicePluginServer(allocator, local.feed, paths)))
    if options.dra:
        node = await process.client.get(NODES, options.node)
        publisher = SlicePublisher(
            process.client, options.node, node.metadata.uid, options.dra_driver, local.feed
        )
        preparer = ClaimPreparer(
            process.client,
            options.node,
            options.dra_driver,
            local.feed,
            local.instances,
            store,
            cdi,
            host=driver,
            sharing=(
                None if mps is None else NodeClaimSharing(mps, NvidiaSmiTimeSlice(), local.feed)
            ),
            release_ended=allocator.release_ended,
        )
        driver_server = DraDriver(preparer, paths, on_registered=publisher.publish)
        runnables += [_OnceDecided(local, each) for each in (publisher, driver_server)]
    return runnables


class _OnceDecided:
    """Runs what offers devices to the kubelet, once the agent has decided which devices it
    withholds: none is offered before as a whole that is to be partitioned."""

    def __init__(self, local: LocalAgent, runnable: Runnable) -> None:
        self.name = runnable.name
        self._local = local
        self._runnable = runnable

    async def run(self) -> None:
        await self._local.wait_until_decided()
        await self._runnable.run()


async def _find_driver(backend: GpuBackend) -> HostDriver:
    """What containers get of the driver; simulated devices have none."""
    return await asyncio.to_thread(find_driver) if backend.name == "nvml" else HostDriver()
