"""The answer on a snapshot file is that on the live cluster, and what its scheduler does."""

from pathlib import Path

import pytest

from kilonova.api.gpu.annotations import DEVICES
from kilonova.artifacts.builds import Build, BuildAccelerator, BuildTopology
from kilonova.instances.alloc.allocation import (
    Allocation,
    BuildRequest,
    allocate,
    find_levels,
)
from kilonova.instances.alloc.snapshot_nodes import to_wire_nodes
from kilonova.instances.allocation.strategies import STRATEGIES
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import Client, unstructured_resource
from kilonova.scheduler.library.snapshots.file import load_snapshot_file, save_snapshot_file
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.settings import EMBEDDED_SETTINGS
from kilonova.scheduler.snapshot_source import capture_connected
from tests.instances.instance_cluster import (
    INSTANCES,
    NAMESPACE,
    PODS,
    InstanceCluster,
    accelerator_nodes,
    instance_cluster,
)
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

BUILDS = {
    each.id: each
    for each in (
        Build(id="rack", model="llama", agents=4, accelerator=BuildAccelerator(count=4)),
        Build(id="block", model="llama", agents=9, accelerator=BuildAccelerator(count=2)),
        Build(id="everything", model="llama", agents=40),
        Build(
            id="required",
            model="llama",
            agents=3,
            accelerator=BuildAccelerator(count=1, memory="40Gi"),
            topology=BuildTopology(required="kilonova.dev/rack"),
        ),
    )
}


async def load_build(build_id: str) -> Build:
    return BUILDS[build_id]


async def capture(client: Client) -> ClusterSnapshot:
    return (await capture_connected(client, EMBEDDED_SETTINGS)).cluster_snapshot


def allocate_build(build: Build, strategy: str, snapshot: ClusterSnapshot) -> Allocation:
    request = BuildRequest.of(build, NAMESPACE, strategy)
    asked = request.ask_strategy(find_levels(snapshot), to_wire_nodes(snapshot.nodes))
    return allocate(request, STRATEGIES[strategy](asked), snapshot, 2)


Placed = dict[str, tuple[str, str]]
"""The node and the devices of each pod."""


def first_copy(allocation: Allocation) -> Placed:
    pods = allocation.copies.placed[0].pods
    return {pod.pod.partition("/")[2]: (pod.node, pod.devices) for pod in pods}


async def place_instance(cluster: InstanceCluster, build: str, strategy: str) -> Placed:
    """Create an instance, and wait until it is ready."""
    spec = {"model": "llama", "build": build, "image": "engine"}
    body = {"metadata": {"name": "llama"}, "spec": {**spec, "allocation": {"strategy": strategy}}}
    await cluster.client.create(INSTANCES, body, NAMESPACE)
    await cluster.wait_for_phase("Ready")
    return {
        each["metadata"]["name"]: (
            each["spec"]["nodeName"],
            each["metadata"]["annotations"].get(DEVICES, ""),
        )
        for each in await cluster.list_objects(PODS)
    }


BINDINGS = unstructured_resource(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)
LEVELS = ("topology.kubernetes.io/zone", "kilonova.dev/rack", "kubernetes.io/hostname")


async def test_levels_of_the_topology_binding_are_in_the_snapshot():
    settings = InstanceSettings(load_build=load_build)
    async with instance_cluster(accelerator_nodes(6, racks=3), settings=settings) as cluster:
        for name, levels in (("second", LEVELS[:1]), ("first", LEVELS)):
            spec = {"levels": [{"domain": f"d{n}", "key": key} for n, key in enumerate(levels)]}
            await cluster.client.create(BINDINGS, {"metadata": {"name": name}, "spec": spec})
        snapshot = await capture(cluster.client)
        assert snapshot.topology_levels == LEVELS
        offline = allocate_build(BUILDS["block"], "tightest", snapshot)
        assert await place_instance(cluster, "block", "tightest") == first_copy(offline)
        status = await cluster.get_status()
        assert status["domain"] == offline.copies.placed[0].domain


@pytest.mark.parametrize("strategy", ["tightest", "packed", "spread"])
@pytest.mark.parametrize("build", BUILDS)
async def test_instance_is_placed_where_alloc_said(build: str, strategy: str, tmp_path: Path):
    nodes = accelerator_nodes(6, racks=3)
    settings = InstanceSettings(load_build=load_build)
    async with instance_cluster(nodes, settings=settings) as cluster:
        snapshot = await capture(cluster.client)
        save_snapshot_file(snapshot, tmp_path / "it.json.gz")
        loaded = load_snapshot_file(tmp_path / "it.json.gz")
        live, offline = (
            allocate_build(BUILDS[build], strategy, each) for each in (snapshot, loaded)
        )
        assert live == offline
        assert await place_instance(cluster, build, strategy) == first_copy(offline)
