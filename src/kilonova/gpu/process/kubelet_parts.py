"""What the agent serves to the kubelet: the device plugin and the DRA driver, with one store of
holdings, one folder of CDI specs, one MIG engine and one set of MPS daemons."""

import asyncio
import shutil
from collections.abc import Sequence

from kilonova.component.process.process import Process
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.resources import NODES
from kilonova.gpu.cdi import CdiFolder, HostDriver, find_driver
from kilonova.gpu.deviceplugin import Allocator, ApiPods, DevicePluginServer
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.dra import ClaimPreparer, DraDriver, SlicePublisher
from kilonova.gpu.kubelet import KubeletPaths
from kilonova.gpu.kubelet.engine_holders import list_holders
from kilonova.gpu.kubelet.holdings import Holding, open_holdings
from kilonova.gpu.kubelet.pod_resources import PodResources
from kilonova.gpu.process.options import AgentOptions
from kilonova.gpu.process.sharing import NodeSharing
from kilonova.gpu.sharing.mps_control import PROGRAM, MpsControlProgram
from kilonova.gpu.sharing.mps_sharing import MpsSharing
from kilonova.gpu.sharing.shares import MpsCapacity
from kilonova.gpu.sharing.time_slicing import NvidiaSmiTimeSlice
from kilonova.kube import Runnable
from kilonova.kube.observability.structured_logging import get_logger

_HOLDINGS = "holdings.json"
_log = get_logger(__name__)


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
    sharing = await _build_sharing(options, local, backend, store.holdings)
    allocator = Allocator(
        local.feed,
        ApiPods(process.client, options.node),
        local.instances,
        store,
        cdi,
        PodResources(paths.pod_resources).read,
        driver=driver,
        sharing=sharing,
        shares_per_gpu=options.shares_per_gpu,
    )
    runnables: list[Runnable] = [] if sharing is None else [sharing]
    if options.device_plugin:
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
            sharing=sharing,
            release_ended=allocator.release_ended,
        )
        runnables += [publisher, DraDriver(preparer, paths, on_registered=publisher.publish)]
    return runnables


async def _find_driver(backend: GpuBackend) -> HostDriver:
    """What containers get of the driver; simulated devices have none."""
    return await asyncio.to_thread(find_driver) if backend.name == "nvml" else HostDriver()


async def _build_sharing(
    options: AgentOptions, local: LocalAgent, backend: GpuBackend, holdings: Sequence[Holding]
) -> NodeSharing | None:
    """Sharing by MPS, where the driver's program is installed."""
    if backend.name != "nvml":
        return None
    if shutil.which(PROGRAM) is None:
        _log.warning("shares of GPUs are not limited: no MPS", program=PROGRAM)
        return None
    capacities = {each.uuid: MpsCapacity(each.memory_mib) for each in local.agent.inventory.devices}
    mps = MpsSharing(options.state_dir / "mps", MpsControlProgram(), backend, capacities)
    sharing = NodeSharing(mps, NvidiaSmiTimeSlice(), lambda: local.feed.inventory)
    await sharing.restore(holdings)
    return sharing
