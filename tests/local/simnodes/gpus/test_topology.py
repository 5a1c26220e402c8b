"""The published GPU topology: for each product, and when a GPU is lost."""

import re
from typing import Any

import pytest

from kilonova.api.gpu.annotations import TOPOLOGY, Topology, parse_devices, parse_topology
from kilonova.kube import Client, Modified
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup, ScriptStep
from kilonova.local.simnodes.gpus.topology import (
    build_feature_labels,
    build_topology_annotation,
    read_unhealthy_gpus,
)
from tests.local.embedded_cluster import NODES, advance_time, run_cluster
from tests.local.simnodes.simulation_helpers import running_simulation

H100 = GpuSpec("NVIDIA-H100-80GB-HBM3", 8)
RESOURCE = "nvidia.com/gpu"
UUID_PATTERN = re.compile("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_annotation(gpu: GpuSpec, *lost: int) -> Topology:
    text = build_topology_annotation("n-0", gpu, frozenset(lost))
    assert text is not None
    topology = parse_topology(text)
    assert isinstance(topology, Topology)
    return topology


def test_eight_nvswitch_gpus_are_in_pairs_on_two_sockets() -> None:
    topology = read_annotation(H100)
    assert [gpu.numa for gpu in topology.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.pcie for gpu in topology.gpus] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert (topology.product, topology.memory) == ("NVIDIA-H100-80GB-HBM3", 81920)
    assert (topology.architecture, topology.port) == ("Hopper", 900)
    assert (topology.mig, topology.links) == ("H100-80GB", ())


@pytest.mark.parametrize(
    ("model", "count", "memory", "architecture", "port", "mig", "links"),
    [
        ("NVIDIA-H200", 8, "141Gi", "Hopper", 900, "H200-141GB", 0),
        ("NVIDIA-B200", 8, "180Gi", "Blackwell", 1800, "B200-180GB", 0),
        ("NVIDIA-GB200", 4, "186Gi", "Blackwell", 1800, "GB200-186GB", 0),
        ("NVIDIA-A100-SXM4-40GB", 8, "40Gi", "Ampere", 600, "A100-40GB", 0),
        ("NVIDIA-A100-SXM4-80GB", 4, "80Gi", "Ampere", 0, "A100-80GB", 6),
        ("NVIDIA-A100-80GB-PCIe", 4, "80Gi", "Ampere", 0, "A100-80GB", 2),
        ("NVIDIA-H100-NVL", 3, "94Gi", "Hopper", 0, "H100-94GB", 1),
        ("NVIDIA-H100-80GB-HBM3", 1, "80Gi", "Hopper", 0, "H100-80GB", 0),
        ("Tesla-V100-SXM2-16GB", 8, "16Gi", "Volta", 0, "", 16),
        ("Tesla-T4", 4, "16Gi", "Turing", 0, "", 0),
        ("NVIDIA-L40S", 2, "48Gi", "Ada", 0, "", 0),
        ("L4", 1, "24Gi", "Ada", 0, "", 0),
        ("Abacus", 2, "1Gi", "", 0, "", 0),
    ],
)
def test_products_are_known_by_their_names(
    model: str, count: int, memory: str, architecture: str, port: int, mig: str, links: int
) -> None:
    topology = read_annotation(GpuSpec(model, count, memory))
    assert len(topology.gpus) == count
    assert (topology.architecture, topology.port, topology.mig) == (architecture, port, mig)
    assert len(topology.links) == links


def test_no_device_has_more_links_than_a_v100() -> None:
    links = read_annotation(GpuSpec("Tesla-V100-SXM2-16GB", 8, "16Gi")).links
    sums = [sum(speed for a, b, speed in links if gpu in (a, b)) for gpu in range(8)]
    assert sums == [300] * 8


def test_devices_are_identified_by_node_and_index() -> None:
    topology = read_annotation(H100)
    uuids = [gpu.uuid for gpu in topology.gpus]
    assert uuids == [gpu.uuid for gpu in read_annotation(H100).gpus]
    assert all(UUID_PATTERN.fullmatch(uuid) for uuid in uuids)
    assert len({gpu.pci for gpu in topology.gpus}) == len(set(uuids)) == 8
    other = build_topology_annotation("n-1", H100, frozenset())
    assert other is not None
    assert not any(uuid in other for uuid in uuids)
    assert topology.sms == 132


def test_mig_instances_are_published_with_their_slices() -> None:
    instances = parse_devices("1:1g.10gb@6,1:3g.40gb@0")
    assert isinstance(instances, tuple)
    text = build_topology_annotation("n-0", H100, frozenset(), instances)
    assert text is not None
    topology = parse_topology(text)
    assert isinstance(topology, Topology)
    gpu = topology.gpus[1]
    assert [(each.profile, each.start) for each in gpu.instances] == [
        ("3g.40gb", 0),
        ("1g.10gb", 6),
    ]
    assert all(each.uuid.startswith("MIG-") for each in gpu.instances)
    assert [each.mig_enabled for each in topology.gpus] == [False, True, *[False] * 6]


def test_a_lost_gpu_is_published_and_unknown_indexes_are_not() -> None:
    text = build_topology_annotation("n-0", H100, frozenset({2, 9}))
    assert text is not None
    assert read_unhealthy_gpus({TOPOLOGY: text}) == {2}
    assert read_annotation(H100, 2).gpus[2].reason == "XID 79: GPU has fallen off the bus"
    assert text == build_topology_annotation("n-0", H100, frozenset({2}))


@pytest.mark.parametrize(
    "gpu", [None, GpuSpec("NVIDIA-L4", 1, topology="none"), GpuSpec("NVIDIA-L4", 65)]
)
def test_a_node_may_publish_no_topology(gpu: GpuSpec | None) -> None:
    assert build_topology_annotation("n-0", gpu, frozenset()) is None


@pytest.mark.parametrize("annotations", [{}, {TOPOLOGY: "{"}, {TOPOLOGY: '{"gpus":[{}]}'}])
def test_invalid_topology_has_no_unhealthy_devices(annotations: dict[str, str]) -> None:
    assert read_unhealthy_gpus(annotations) == set()


def test_labels_are_those_of_feature_discovery() -> None:
    labels = build_feature_labels(GpuSpec("NVIDIA-L40S", 2, "48Gi"))
    assert labels["nvidia.com/gpu.family"] == "ada-lovelace"
    assert labels["nvidia.com/gpu.compute.major"] == "8"
    assert labels["nvidia.com/gpu.compute.minor"] == "9"
    assert labels["nvidia.com/mig.capable"] == "false"
    assert build_feature_labels(H100)["nvidia.com/mig.capable"] == "true"
    assert "nvidia.com/gpu.family" not in build_feature_labels(GpuSpec("Abacus", 1))


def state_of(node: Any) -> tuple[int, set[int]]:
    """What is allocatable on a node, and what is unhealthy."""
    unhealthy = read_unhealthy_gpus(node["metadata"]["annotations"])
    return int(node["status"]["allocatable"][RESOURCE]), set(unhealthy)


async def state(client: Client) -> tuple[int, set[int]]:
    return state_of(await client.get(NODES, "n-0"))


def fleet(*script: ScriptStep, **gpu: Any) -> Fleet:
    made = GpuSpec("NVIDIA-H100-80GB-HBM3", 8, **gpu)
    return Fleet((NodeGroup("n", gpu=made),), script=script)


@pytest.mark.looptime
async def test_health_and_allocatable_change_in_one_write() -> None:
    step = ScriptStep("30s", "gpu-lost", "n-0/2", "10m")
    async with run_cluster(fleet=fleet(step)) as cluster:
        client = cluster.client("test")
        seen: list[tuple[int, set[int]]] = []
        known = (await client.list(NODES)).resource_version
        async with client.watch(NODES, resource_version=known) as changes:
            async for batch in changes:
                for change in batch:
                    if isinstance(change, Modified):
                        seen.append(state_of(change.object))
                if (7, {2}) in seen and seen[-1] == (8, set()):
                    break
        assert all(each in ((8, set()), (7, {2})) for each in seen)


@pytest.mark.looptime
async def test_gpus_lost_during_an_outage_are_published_afterwards() -> None:
    steps = ScriptStep("10s", "node-outage", "n-0", "5m"), ScriptStep("60s", "gpu-lost", "n-0/3")
    async with run_cluster(fleet=fleet(*steps)) as cluster:
        client = cluster.client("test")
        await advance_time(120)
        assert await state(client) == (8, set()), "a node that is out publishes nothing"
        await advance_time(300)
        assert await state(client) == (7, {3})


@pytest.mark.looptime
async def test_node_without_topology_reduces_allocatable() -> None:
    step = ScriptStep("10s", "gpu-lost", "n-0/3")
    async with run_cluster(fleet=fleet(step, topology="none")) as cluster:
        client = cluster.client("test")
        await advance_time(20)
        node = await client.get(NODES, "n-0")
        assert TOPOLOGY not in node["metadata"]["annotations"]
        assert node["status"]["allocatable"][RESOURCE] == "7"


@pytest.mark.looptime
async def test_a_new_process_keeps_lost_gpus_and_sees_expired_faults() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "1,5"}}}
        async with running_simulation(client, fleet()):
            await client.patch(NODES, "n-0", lost)
            await advance_time()
        async with running_simulation(client, fleet()):
            assert await state(client) == (6, {1, 5})
            await advance_time()
            assert await state(client) == (6, {1, 5})
        lost["metadata"]["annotations"]["sim.kilonova.dev/lost-gpus"] = "5"
        await client.patch(NODES, "n-0", lost)
        async with running_simulation(client, fleet()):
            await advance_time()
            assert await state(client) == (7, {5})


@pytest.mark.looptime
async def test_a_fleet_without_topology_removes_the_annotation() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, fleet()):
            assert await state(client) == (8, set())
        async with running_simulation(client, fleet(topology="none")):
            node = await client.get(NODES, "n-0")
            assert TOPOLOGY not in node["metadata"].get("annotations", {})
