"""What the agent serves to the kubelet: the device plugin and the DRA driver, with one store of
holdings, one folder of CDI specs and one MIG engine."""

import asyncio
from collections.abc import Sequence

from kilonova.component.process.process import Process
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.resources import NODES
from kilonova.gpu.cdi import CdiFolder, HostDriver, find_driver
from kilonova.gpu.deviceplugin import Allocator, ApiPods, DevicePluginServer
from kilonova.gpu.dra import ClaimPreparer, DraDriver, SlicePublisher
from kilonova.gpu.kubelet import HoldingStore, KubeletPaths
from kilonova.gpu.kubelet.pod_resources import PodResources
from kilonova.gpu.process.options import AgentOptions
from kilonova.kube import Runnable

_HOLDINGS = "holdings.json"


async def build_kubelet_parts(
    process: Process, options: AgentOptions, local: LocalAgent
) -> Sequence[Runnable]:
    """What has to run; nothing where neither is served."""
    if options.kubelet_dir is None:
        return ()
    paths = KubeletPaths(options.kubelet_dir, str(options.kubelet_dir))
    store = HoldingStore(options.state_dir / _HOLDINGS)
    await store.load()
    # Until the plugins have restored them, what containers have must not be taken for unused.
    local.instances.adopt(store.holdings)
    cdi = CdiFolder(options.cdi_dir)
    driver = await _find_driver(options)
    runnables: list[Runnable] = []
    if options.device_plugin:
        resources = PodResources(paths.pod_resources)
        allocator = Allocator(
            local.feed,
            ApiPods(process.client, options.node),
            local.instances,
            store,
            cdi,
            resources.read,
            driver=driver,
        )
        runnables.append(DevicePluginServer(allocator, local.feed, paths))
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
        )
        runnables += [publisher, DraDriver(preparer, paths, on_registered=publisher.publish)]
    return runnables


async def _find_driver(options: AgentOptions) -> HostDriver:
    """What containers get of the driver; simulated devices have none."""
    if not options.backend.startswith("nvml"):
        return HostDriver()
    return await asyncio.to_thread(find_driver)
