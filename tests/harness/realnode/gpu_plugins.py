"""Device plugin and DRA driver beside a real node, on simulated GPUs: `python -m … OPTIONS`.

What a node agent does for containers, and nothing else. On SIGUSR1 the last GPU falls off the bus.
"""

import argparse
import asyncio
import signal
from pathlib import Path

from kilonova.catalog import load_catalog
from kilonova.gpu.agent.engine_instances import EngineInstances
from kilonova.gpu.cdi import CdiFolder
from kilonova.gpu.deviceplugin import Allocator, ApiPods, DevicePluginServer
from kilonova.gpu.devices.simulated import (
    INSTANT,
    SimulatedBackend,
    build_machine,
    find_persona,
)
from kilonova.gpu.dra import (
    DEFAULT_DRIVER,
    ClaimPreparer,
    DraDriver,
    SlicePublisher,
    build_device_classes,
)
from kilonova.gpu.kubelet import InventoryFeed, KubeletPaths, open_holdings
from kilonova.gpu.kubelet.engine_holders import list_holders
from kilonova.gpu.kubelet.pod_resources import PodResources
from kilonova.gpu.mig.engine import MigEngine
from kilonova.kube import connect, unstructured_resource
from kilonova.kube.client.resource import Resource
from kilonova.kube.observability.structured_logging import configure_logging

CLASSES = unstructured_resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
NODES: Resource[dict[str, object]] = unstructured_resource("", "v1", "nodes", "Node", False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("kubeconfig", "kubelet", "cdi", "state"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--persona", default="h100:4")
    asyncio.run(run(parser.parse_args()))


async def run(options: argparse.Namespace) -> None:
    """Serve until killed."""
    configure_logging()
    catalog = load_catalog()
    machine = build_machine(find_persona(options.persona, catalog), catalog, node=options.node)
    backend = SimulatedBackend(machine, durations=INSTANT)
    feed = InventoryFeed(backend.read_inventory())
    cdi = CdiFolder(options.cdi)
    store = await open_holdings(options.state / "holdings.json", cdi)
    engine = MigEngine(backend, options.state)
    await engine.open()
    await engine.reconcile(list_holders(store.holdings))
    instances = EngineInstances(engine, lambda: None)
    paths = KubeletPaths(options.kubelet)
    resources = PodResources(paths.pod_resources)
    client = connect(options.kubeconfig)
    for each in build_device_classes(DEFAULT_DRIVER):
        await client.apply(CLASSES, each["metadata"]["name"], each)
    node = await client.get(NODES, options.node)
    uid = node["metadata"]["uid"]  # pyright: ignore
    allocator = Allocator(
        feed, ApiPods(client, options.node), instances, store, cdi, resources.read
    )
    publisher = SlicePublisher(client, options.node, str(uid), DEFAULT_DRIVER, feed)
    preparer = ClaimPreparer(
        client,
        options.node,
        DEFAULT_DRIVER,
        feed,
        instances,
        store,
        cdi,
        release_ended=allocator.release_ended,
    )
    runnables = (
        DevicePluginServer(allocator, feed, paths),
        DraDriver(preparer, paths, on_registered=publisher.publish),
        publisher,
    )

    async def lose_last() -> None:
        backend.lose(machine.devices[-1].uuid)
        await feed.publish(backend.read_inventory())

    async with asyncio.TaskGroup() as tasks:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: tasks.create_task(lose_last()))
        for each in runnables:
            tasks.create_task(each.run())


if __name__ == "__main__":
    main()
