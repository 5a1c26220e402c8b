"""MIGStrategies: which one a node gets, as a table, and on an embedded cluster."""

from typing import Any

import msgspec
import pytest

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.api.gpu.mig_strategy import MIG_STRATEGY, NodeMigStrategy, parse_mig_strategy
from kilonova.api.kgwe import MIGStrategy
from kilonova.gpu.controllers.migstrategy.assignment import Assignment, assign_strategy
from kilonova.gpu.controllers.node_devices import NodeDevices
from kilonova.scheduler.objects.core_v1 import Node
from tests.gpu.controllers.workload_cluster import (
    H100,
    NODES,
    STRATEGIES,
    GpuCluster,
    condition_of,
    gpu_cluster,
    gpu_nodes,
)
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition

STOCK = {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1}
H200 = {"product": "NVIDIA H200", "memory": 143771, "mig": "H200-141GB"}


def strategy(name: str = "stock", **spec: Any) -> MIGStrategy:
    body = {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "generation": 2},
        "spec": {"profileDistribution": STOCK, **spec},
    }
    return msgspec.convert(body, MIGStrategy)


def node(
    topology: Any = None, *, gpus: int = 2, labels: dict[str, str] | None = None, **more: Any
) -> Node:
    devices = {
        "product": "NVIDIA-H100-80GB-HBM3",
        "memory": 81559,
        "architecture": "Hopper",
        "mig": "H100-80GB",
        **(topology or {}),
    }
    devices.setdefault("gpus", [{"uuid": f"GPU-{index}"} for index in range(gpus)])
    annotations = {TOPOLOGY: msgspec.json.encode(devices).decode()}
    metadata = {
        "name": "n",
        "uid": "n",
        "resourceVersion": "1",
        "labels": labels or {},
        "annotations": annotations,
        **more,
    }
    return msgspec.convert({"metadata": metadata}, Node)


def assign(where: Node, *strategies: MIGStrategy) -> Assignment:
    return assign_strategy(where, NodeDevices().read(where), strategies)


def test_node_gets_the_fractions_and_how_they_may_change() -> None:
    found = assign(node(), strategy(allowDynamicReconfig=True, rebalanceInterval="1m30s"))
    assert found.strategy == NodeMigStrategy(
        "stock", 2, STOCK, None, dynamic=True, interval=90.0, min_utilization=0.3
    )


EVICTION: dict[str, tuple[bool, bool, bool]] = {
    "neither": (False, False, False),
    "instances alone": (True, False, False),
    "pods alone": (False, True, False),
    "both": (True, True, True),
}


@pytest.mark.parametrize(("dynamic", "pods", "expected"), EVICTION.values(), ids=EVICTION)
def test_pods_are_evicted_only_beside_their_instances(
    dynamic: bool, pods: bool, expected: bool
) -> None:
    found = assign(node(), strategy(allowDynamicReconfig=dynamic, allowPodEviction=pods))
    assert found.strategy is not None
    assert (found.strategy.evicts_pods, found.strategy.uid) == (
        expected,
        "stock" if expected else "",
    )


MIXED = {"gpus": [{"mig": ""}, {}, {"product": "NVIDIA H200", "mig": "H200-141GB"}, {}]}
SELECTED: dict[str, tuple[Any, Any, Any]] = {
    "all with MIG": ({}, {}, None),
    "another label": ({"nodeSelector": {"pool": "b"}}, {}, "none"),
    "its label": ({"nodeSelector": {"pool": "a"}}, {}, None),
    "its model": ({"gpuSelector": {"model": "A100,H100"}}, {}, None),
    "another model": ({"gpuSelector": {"model": "A100"}}, {}, "none"),
    "enough memory, as products are named": ({"gpuSelector": {"minMemoryGB": 80}}, {}, None),
    "more memory": ({"gpuSelector": {"minMemoryGB": 90}}, {}, "none"),
    "another architecture": ({"gpuSelector": {"architecture": "Ampere"}}, {}, "none"),
    "some GPUs of a node": ({"gpuSelector": {"model": "H100"}}, MIXED, (1, 3)),
    "no GPU with MIG": ({}, {"mig": ""}, "none"),
    "an unhealthy GPU": ({}, {"gpus": [{"healthy": False}, {}]}, None),
    "no GPU": ({}, {"gpus": []}, "none"),
    "a node that is going": ({}, {}, "deleted"),
    "more than everything": ({"profileDistribution": {"1g.10gb": 0.7, "2g.20gb": 0.4}}, {}, "none"),
    "nothing": ({"profileDistribution": {}}, {}, "none"),
}


@pytest.mark.parametrize(("spec", "topology", "expected"), SELECTED.values(), ids=SELECTED)
def test_strategy_selects_nodes_and_gpus(spec: Any, topology: Any, expected: Any) -> None:
    gone: Any = {"deletionTimestamp": "2026-05-01T00:00:00Z"} if expected == "deleted" else {}
    found = assign(node(topology, labels={"pool": "a"}, **gone), strategy(**spec))
    if expected in ("none", "deleted"):
        assert found == Assignment()
    else:
        assert found.strategy is not None
        assert found.strategy.gpus == expected


def test_strategy_with_the_highest_priority_counts() -> None:
    low, high = strategy("a"), strategy("b", priority=5)
    found = assign(node(), low, high)
    assert found.strategy is not None
    assert found.strategy.name == "b"
    assert found.overridden == {"a": "b"}


def test_first_by_name_counts_of_equal_priority() -> None:
    found = assign(node(), strategy("b"), strategy("a"))
    assert found.strategy is not None
    assert found.strategy.name == "a"


def test_profile_that_the_gpu_lacks_is_named_with_those_that_it_has() -> None:
    found = assign(node(H200), strategy("a", priority=5), strategy("b", profileDistribution={}))
    assert found.strategy is None
    assert found.unknown_profiles["a"].startswith(
        "node n: NVIDIA H200 has no MIG profile 1g.10gb; it has 1g.18gb, "
    )


def test_next_strategy_counts_where_a_profile_is_unknown() -> None:
    suitable = strategy("b", profileDistribution={"1g.18gb": 1})
    found = assign(node(H200), strategy("a", priority=5), suitable)
    assert found.strategy is not None
    assert found.strategy.name == "b"


async def wait_for_ready(cluster: GpuCluster, name: str, reason: str) -> Any:
    """Wait for a reason of the condition Ready; returns the status."""
    status: Any = {}

    async def holds() -> bool:
        nonlocal status
        status = (await cluster.get(STRATEGIES, name)).get("status", {})
        return condition_of(status, "Ready").get("reason") == reason

    try:
        await wait_for_condition(holds)
    except AssertionError:
        raise AssertionError(f"status of {name}: {status}") from None
    return status


async def read_annotation(cluster: GpuCluster, name: str) -> Any:
    found = (await cluster.get(NODES, name))["metadata"].get("annotations", {}).get(MIG_STRATEGY)
    return None if found is None else parse_mig_strategy(found)


def manifest(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"profileDistribution": STOCK, **spec}}


@virtual_time
async def test_strategy_is_assigned_replaced_and_withdrawn() -> None:
    l4 = gpu_nodes(1, gpu=type(H100)("L4", 2, "24Gi"), name="small")
    async with gpu_cluster(gpu_nodes(2), l4) as cluster:
        await cluster.client.create(STRATEGIES, manifest("stock"))
        status = await wait_for_ready(cluster, "stock", "Assigned")
        assert status["appliedNodes"] == ["node-0", "node-1"]
        message = "2 nodes have the strategy: 1g.10gb 70 %, 2g.20gb 20 %, 3g.40gb 10 %"
        assert condition_of(status, "Ready")["message"] == message
        assert (await read_annotation(cluster, "node-0")).profiles == STOCK
        assert await read_annotation(cluster, "small-0") is None

        other = manifest("other", priority=3, profileDistribution={"7g.80gb": 1.0})
        await cluster.client.create(STRATEGIES, other)
        await wait_for_ready(cluster, "other", "Assigned")
        status = await wait_for_ready(cluster, "stock", "Overridden")
        assert status.get("appliedNodes", []) == []
        assert "other" in condition_of(status, "Ready")["message"]

        await cluster.client.delete(STRATEGIES, "other")
        await wait_for_ready(cluster, "stock", "Assigned")
        await cluster.client.delete(STRATEGIES, "stock")

        async def withdrawn() -> bool:
            return await read_annotation(cluster, "node-1") is None

        await wait_for_condition(withdrawn)


@virtual_time
async def test_instances_on_nodes_are_measured() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.client.create(STRATEGIES, manifest("stock"))
        await wait_for_ready(cluster, "stock", "Assigned")
        mig = {"spec.gpuRequirements.mig": {"profile": "2g.20gb", "count": 2}}
        await cluster.create(gpus=2, changes=mig)
        await cluster.wait_for_phase("Running")

        async def measured() -> bool:
            status = (await cluster.get(STRATEGIES, "stock"))["status"]
            # 2 × 2 of 8 × 8 memory slices.
            return status.get("currentDistribution") == {"2g.20gb": 0.0625}

        await wait_for_condition(measured)
        status = (await cluster.get(STRATEGIES, "stock"))["status"]
        assert status["lastRebalanceTime"] >= "2026-05-01T00:00:00Z"


@virtual_time
@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"nodeSelector": {"pool": "a"}}, "NoNodes", "pool=a"),
        ({"gpuSelector": {"model": "A100"}}, "NoGPUs", "spec.gpuSelector"),
        ({"profileDistribution": {"1g.18gb": 1}}, "UnknownProfile", "has no MIG profile 1g.18gb"),
        ({"profileDistribution": {}}, "InvalidSpec", "add profiles, such as 1g.10gb: 0.7"),
    ],
)
async def test_strategy_without_effect_says_why(spec: Any, reason: str, words: str) -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.client.create(STRATEGIES, manifest("stock", **spec))
        status = await wait_for_ready(cluster, "stock", reason)
        assert words in condition_of(status, "Ready")["message"]
        assert await read_annotation(cluster, "node-0") is None


@virtual_time
async def test_settled_strategy_is_written_no_more() -> None:
    async with gpu_cluster() as cluster:
        await cluster.client.create(STRATEGIES, manifest("stock"))
        await wait_for_ready(cluster, "stock", "Assigned")
        await advance_time(20)
        before = (await cluster.get(STRATEGIES, "stock"))["metadata"]["resourceVersion"]
        await advance_time(300)
        assert (await cluster.get(STRATEGIES, "stock"))["metadata"]["resourceVersion"] == before
