"""What simulated nodes tell of their GPUs: for each product, and when one is lost."""

from typing import Any

import pytest

from kilonova.api.gpus import TOPOLOGY, Topology, read_topology
from kilonova.kube import Client, Modified
from kilonova.local.nodes.fleet import Fleet, Gpu, NodeGroup, Step
from kilonova.local.nodes.topologies import feature_labels, topology_annotation, unhealthy_gpus
from tests.local.embedded_cluster import NODES, running, settle
from tests.local.nodes.simulations import simulation

H100 = Gpu("NVIDIA-H100-80GB-HBM3", 8)
RESOURCE = "nvidia.com/gpu"


def told(gpu: Gpu, *lost: int) -> Topology:
    text = topology_annotation(gpu, frozenset(lost))
    assert text is not None
    topology = read_topology(text)
    assert isinstance(topology, Topology)
    return topology


def test_eight_behind_nvswitches_stand_in_pairs_at_two_sockets() -> None:
    topology = told(H100)
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
    topology = told(Gpu(model, count, memory))
    assert len(topology.gpus) == count
    assert (topology.architecture, topology.port, topology.mig) == (architecture, port, mig)
    assert len(topology.links) == links


def test_no_device_has_more_links_than_a_v100() -> None:
    links = told(Gpu("Tesla-V100-SXM2-16GB", 8, "16Gi")).links
    sums = [sum(speed for a, b, speed in links if gpu in (a, b)) for gpu in range(8)]
    assert sums == [300] * 8


def test_equal_nodes_share_one_text() -> None:
    first = topology_annotation(H100, frozenset())
    assert first is topology_annotation(Gpu("NVIDIA-H100-80GB-HBM3", 8), frozenset())


def test_a_lost_gpu_is_told_and_those_that_never_were_are_not() -> None:
    text = topology_annotation(H100, frozenset({2, 9}))
    assert text is not None
    assert unhealthy_gpus({TOPOLOGY: text}) == {2}
    assert text == topology_annotation(H100, frozenset({2}))


@pytest.mark.parametrize("gpu", [None, Gpu("NVIDIA-L4", 1, topology="none"), Gpu("NVIDIA-L4", 65)])
def test_a_node_may_tell_nothing(gpu: Gpu | None) -> None:
    assert topology_annotation(gpu, frozenset()) is None


@pytest.mark.parametrize("annotations", [{}, {TOPOLOGY: "{"}, {TOPOLOGY: '{"gpus":[{}]}'}])
def test_what_cannot_be_read_is_well(annotations: dict[str, str]) -> None:
    assert unhealthy_gpus(annotations) == set()


def test_labels_are_those_of_feature_discovery() -> None:
    labels = feature_labels(Gpu("NVIDIA-L40S", 2, "48Gi"))
    assert labels["nvidia.com/gpu.family"] == "ada-lovelace"
    assert labels["nvidia.com/gpu.compute.major"] == "8"
    assert labels["nvidia.com/gpu.compute.minor"] == "9"
    assert labels["nvidia.com/mig.capable"] == "false"
    assert feature_labels(H100)["nvidia.com/mig.capable"] == "true"
    assert "nvidia.com/gpu.family" not in feature_labels(Gpu("Abacus", 1))


def state_of(node: Any) -> tuple[int, set[int]]:
    """What can be allocated on a node, and what is not well."""
    unhealthy = unhealthy_gpus(node["metadata"]["annotations"])
    return int(node["status"]["allocatable"][RESOURCE]), set(unhealthy)


async def state(client: Client) -> tuple[int, set[int]]:
    return state_of(await client.get(NODES, "n-0"))


def fleet(*script: Step, **gpu: Any) -> Fleet:
    made = Gpu("NVIDIA-H100-80GB-HBM3", 8, **gpu)
    return Fleet((NodeGroup("n", gpu=made),), script=script)


@pytest.mark.looptime
async def test_health_and_what_can_be_allocated_change_in_one_write() -> None:
    step = Step("30s", "gpu-lost", "n-0/2", "10m")
    async with running(fleet=fleet(step)) as cluster:
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
async def test_gpus_lost_while_a_node_is_out_are_told_when_it_is_back() -> None:
    steps = Step("10s", "node-out", "n-0", "5m"), Step("60s", "gpu-lost", "n-0/3")
    async with running(fleet=fleet(*steps)) as cluster:
        client = cluster.client("test")
        await settle(120)
        assert await state(client) == (8, set()), "who is silent tells nothing"
        await settle(300)
        assert await state(client) == (7, {3})


@pytest.mark.looptime
async def test_a_node_without_topology_still_has_fewer_to_give() -> None:
    step = Step("10s", "gpu-lost", "n-0/3")
    async with running(fleet=fleet(step, topology="none")) as cluster:
        client = cluster.client("test")
        await settle(20)
        node = await client.get(NODES, "n-0")
        assert TOPOLOGY not in node["metadata"]["annotations"]
        assert node["status"]["allocatable"][RESOURCE] == "7"


@pytest.mark.looptime
async def test_a_new_process_tells_no_lost_gpu_well_and_hears_what_ended_meanwhile() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "1,5"}}}
        async with simulation(client, fleet()):
            await client.patch(NODES, "n-0", lost)
            await settle()
        async with simulation(client, fleet()):
            assert await state(client) == (6, {1, 5})
            await settle()
            assert await state(client) == (6, {1, 5})
        lost["metadata"]["annotations"]["sim.kilonova.dev/lost-gpus"] = "5"
        await client.patch(NODES, "n-0", lost)
        async with simulation(client, fleet()):
            await settle()
            assert await state(client) == (7, {5})


@pytest.mark.looptime
async def test_a_fleet_that_tells_no_more_takes_away_what_it_told() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        async with simulation(client, fleet()):
            assert await state(client) == (8, set())
        async with simulation(client, fleet(topology="none")):
            node = await client.get(NODES, "n-0")
            assert TOPOLOGY not in node["metadata"].get("annotations", {})
