"""Simulated nodes that come and go: launched, booted, interrupted, deleted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.times import parse_time
from kilonova.kube import Client, NotFound, Resource
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import (
    NO_NODES,
    FailureRates,
    Fleet,
    FleetCapacityRule,
    NodeGroup,
    ScriptStep,
)
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    LoopClock,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

GPU = "nvidia.com/gpu"
MACHINE = "node.kubernetes.io/instance-type"
TAINT = "kilonova.dev/interruption"


def node(name: str, machine: str = "", described: str = "", **other: Any) -> Any:
    labels = {"kilonova.dev/node-kind": "sim", **other.pop("labels", {})}
    if machine:
        labels[MACHINE] = machine
    annotations = {**other.pop("annotations", {})}
    if described:
        annotations["sim.kilonova.dev/machine"] = described
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, **other}


@asynccontextmanager
async def simulated_cluster(
    fleet: Fleet = NO_NODES, **other: Any
) -> AsyncGenerator[EmbeddedCluster]:
    async with run_cluster(fleet=fleet, scheduler=True, **other) as cluster:
        yield cluster


def condition(found: Any, kind: str = "Ready") -> tuple[str, str]:
    each = next(c for c in found["status"].get("conditions", ()) if c["type"] == kind)
    return each["status"], each["reason"]


async def wait_reason(client: Client, name: str, reason: str, within: float = 60) -> Any:
    async def has_reason() -> bool:
        found = await find(client, NODES, name)
        conditions = found["status"].get("conditions", ())
        return reason in [each["reason"] for each in conditions]

    await wait_for_condition(has_reason, within=within)
    return await find(client, NODES, name)


async def wait_phase(client: Client, name: str, phase: str, within: float = 60) -> Any:
    async def has_phase() -> bool:
        return (await find(client, PODS, name))["status"].get("phase") == phase

    await wait_for_condition(has_phase, within=within)
    return await find(client, PODS, name)


async def wait_gone(client: Client, resource: Resource[Any], name: str, within: float) -> None:
    async def is_gone() -> bool:
        try:
            await client.get(resource, name, "default" if resource.namespaced else None)
        except NotFound:
            return True
        return False

    await wait_for_condition(is_gone, within=within)


def gpu_pod(name: str, gpus: int = 1, **spec: Any) -> Any:
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"limits": {GPU: gpus}}
    return made


async def reasons_of_events(client: Client, name: str) -> set[str]:
    found = (await client.list(EVENTS, "default")).items
    return {each["reason"] for each in found if each["involvedObject"]["name"] == name}


async def test_a_node_of_a_machine_type_boots_and_runs_pods_until_it_is_deleted() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        await client.create(PODS, gpu_pod("waits", 8), "default")
        labels = {"topology.kubernetes.io/zone": "zone-b", "team": "blue"}
        body = node("big", "p5.48xlarge", '{"boot": "30s"}', labels=labels)
        await client.create(NODES, body)
        booting = await wait_reason(client, "big", "Booting")
        assert condition(booting) == ("False", "Booting")
        assert "capacity" not in booting["status"]
        await advance_time(25)
        assert condition(await find(client, NODES, "big")) == ("False", "Booting")
        ready = await wait_reason(client, "big", "KubeletReady", within=10)
        capacity = ready["status"]["capacity"]
        assert (capacity["cpu"], capacity["memory"], capacity[GPU]) == ("192", "2Ti", "8")
        assert ready["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert ready["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
        assert ready["metadata"]["labels"]["team"] == "blue"
        running = await wait_phase(client, "waits", "Running")
        assert running["spec"]["nodeName"] == "big"
        await asyncio.sleep(120)
        assert condition(await find(client, NODES, "big"))[0] == "True"
        await client.delete(NODES, "big")
        await wait_gone(client, PODS, "waits", 120)
        with pytest.raises(NotFound):
            await client.get(LEASES, "big", "kube-node-lease")
        assert {"Launched", "Booted"} <= await reasons_of_events(client, "big")


async def test_a_description_is_enough_without_a_machine_type() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        described = "cpu: 4\nmemory: 8Gi\ngpu: {model: NVIDIA-L4, count: 2, memory: 24Gi}\n"
        await client.create(NODES, node("own", "", described))
        ready = await wait_reason(client, "own", "KubeletReady")
        assert ready["status"]["allocatable"][GPU] == "2"
        assert ready["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-a"


async def test_nodes_have_addresses_of_their_own() -> None:
    async with simulated_cluster(Fleet((NodeGroup("n", 2),))) as cluster:
        client = cluster.client("test")
        for name in ("a", "b", "c"):
            await client.create(NODES, node(name, "m7i.large"))
        for name in ("a", "b", "c"):
            await wait_reason(client, name, "KubeletReady")
        nodes = (await client.list(NODES)).items
        assert len({each["spec"]["podCIDR"] for each in nodes}) == 5
        assert len({each["status"]["addresses"][0]["address"] for each in nodes}) == 5


@pytest.mark.parametrize(
    ("machine", "described", "problem"),
    [
        ("p5.99xlarge", "", '"p5.99xlarge" is not a machine type of the catalog'),
        ("p5.48xlarge", '{"boot": "soon"}', 'boot: "soon" is not a duration'),
        ("", '{"cpu": "lots"}', 'cpu: "lots" is not a quantity'),
        ("", "[]", "a list is invalid"),
        ("", '{"count": 3}', "count: is not described here: set it on the Node itself"),
        ("", '{"colour": "red"}', "colour: unknown field: choose from name, count, cpu"),
    ],
)
async def test_an_invalid_description_is_reported(
    machine: str, described: str, problem: str
) -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        await client.create(NODES, node("odd", machine, described))
        found = await wait_reason(client, "odd", "InvalidDescription")
        assert problem in found["status"]["conditions"][0]["message"]
        await asyncio.sleep(120)
        assert condition(await find(client, NODES, "odd")) == ("False", "InvalidDescription")


async def test_requests_beyond_the_capacity_fail_while_a_rule_lasts() -> None:
    rules = (FleetCapacityRule("p5.48xlarge", "zone-a", "spot", limit=1, duration="5m"),)
    spot = {"karpenter.sh/capacity-type": "spot"}
    async with simulated_cluster(Fleet(capacity=rules)) as cluster:
        client = cluster.client("test")
        for name in ("first", "second"):
            await client.create(NODES, node(name, "p5.48xlarge", labels=spot))
        await client.create(NODES, node("on-demand", "p5.48xlarge"))
        elsewhere = {**spot, "topology.kubernetes.io/zone": "zone-b"}
        await client.create(NODES, node("elsewhere", "p5.48xlarge", labels=elsewhere))
        for name in ("first", "on-demand", "elsewhere"):
            await wait_reason(client, name, "KubeletReady")
        failed = await wait_reason(client, "second", "InsufficientCapacity")
        message = failed["status"]["conditions"][0]["message"]
        assert "spot p5.48xlarge in zone-a: at most 1 can be launched until 2026-" in message
        await advance_time(301)
        assert condition(await find(client, NODES, "second")) == ("False", "InsufficientCapacity")
        await client.create(NODES, node("third", "p5.48xlarge", labels=spot))
        await wait_reason(client, "third", "KubeletReady")
        assert "InsufficientCapacity" in await reasons_of_events(client, "second")


async def test_capacity_that_is_given_back_can_be_used_again() -> None:
    async with simulated_cluster(Fleet(capacity=(FleetCapacityRule(limit=1),))) as cluster:
        client = cluster.client("test")
        await client.create(NODES, node("a", "m7i.large"))
        await wait_reason(client, "a", "KubeletReady")
        await client.delete(NODES, "a")
        await client.create(NODES, node("b", "m7i.large"))
        await wait_reason(client, "b", "KubeletReady")


async def test_rules_may_be_written_at_any_time_and_invalid_ones_are_reported() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        name = {"name": "simulated-capacity", "namespace": "kube-system"}
        body = {"metadata": name, "data": {"rules": "- {machine: m7i.large}"}}
        await client.create(CONFIG_MAPS, body, "kube-system")
        await client.create(NODES, node("a", "m7i.large"))
        await wait_reason(client, "a", "InsufficientCapacity")
        invalid = {"data": {"rules": "- {until: tomorrow}"}}
        await client.patch(CONFIG_MAPS, name["name"], invalid, "kube-system")
        await client.create(NODES, node("b", "m7i.large"))
        await wait_reason(client, "b", "KubeletReady")

        async def is_reported() -> bool:
            return "InvalidCapacityRules" in await reasons_of_events(client, "b")

        await wait_for_condition(is_reported)


async def interrupt(client: Client, name: str, value: str | None = "true") -> None:
    annotations = {"sim.kilonova.dev/interruption": value}
    await client.patch(NODES, name, {"metadata": {"annotations": annotations}})


def has_taint(found: Any) -> bool:
    return TAINT in [each["key"] for each in found["spec"].get("taints", ())]


async def test_an_interruption_is_announced_and_then_the_machine_is_gone() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        described = '{"failures": {"interruptionNotice": "90s"}}'
        await client.create(NODES, node("spot", "g6.xlarge", described))
        await wait_reason(client, "spot", "KubeletReady")
        await client.create(PODS, gpu_pod("p"), "default")
        await wait_phase(client, "p", "Running")
        announced = LoopClock().now()
        await interrupt(client, "spot")
        found = await wait_reason(client, "spot", "SpotInterruption")
        assert has_taint(found)
        assert condition(found, "InterruptionNotice") == ("True", "SpotInterruption")
        assert condition(found)[0] == "True"
        deadline = parse_time(found["metadata"]["annotations"]["sim.kilonova.dev/interruption"])
        assert 88 <= (deadline - announced).total_seconds() <= 92
        await client.create(PODS, gpu_pod("late"), "default")
        await advance_time(80)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Running"
        assert "nodeName" not in (await find(client, PODS, "late"))["spec"]
        await wait_gone(client, NODES, "spot", 15)
        await wait_gone(client, PODS, "p", 120)
        assert {"SpotInterruption", "Interrupted"} <= await reasons_of_events(client, "spot")


async def test_a_notice_may_be_withdrawn() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        taints = [{"key": "own", "effect": "NoSchedule"}]
        await client.create(NODES, node("spot", "g6.xlarge", spec={"taints": taints}))
        await wait_reason(client, "spot", "KubeletReady")
        await interrupt(client, "spot")
        await wait_reason(client, "spot", "SpotInterruption")
        await interrupt(client, "spot", None)
        found = await wait_reason(client, "spot", "NoInterruption")
        await advance_time(300)
        found = await find(client, NODES, "spot")
        assert [each["key"] for each in found["spec"]["taints"]] == ["own"]


async def test_machines_are_interrupted_at_random_and_by_script() -> None:
    failures = FailureRates(interruption_mtbf="10m", interruption_notice="10s")
    groups = (NodeGroup("spot", 4, market="spot", failures=failures), NodeGroup("kept", 2))
    script = (ScriptStep("1m", "interruption", "kept-0"),)
    async with simulated_cluster(Fleet(groups, script=script)) as cluster:
        client = cluster.client("test")
        await asyncio.sleep(4 * 3600)
        names = {each["metadata"]["name"] for each in (await client.list(NODES)).items}
        assert names == {"kept-1"}


async def test_a_fleet_boots_has_a_machine_type_a_market_and_a_price() -> None:
    group = NodeGroup("g", 2, boot="20s", machine="g6.xlarge", market="spot", price=0.4)
    async with simulated_cluster(Fleet((group,))) as cluster:
        client = cluster.client("test")
        found = await find(client, NODES, "g-0")
        assert condition(found) == ("False", "Booting")
        ready = await wait_reason(client, "g-1", "KubeletReady")
        labels = ready["metadata"]["labels"]
        assert (labels[MACHINE], labels["karpenter.sh/capacity-type"]) == ("g6.xlarge", "spot")
        assert ready["metadata"]["annotations"]["kilonova.dev/node-hourly-price"] == "0.4"


async def test_a_new_process_takes_up_nodes_in_every_state(tmp_path: Any) -> None:
    fleet = Fleet((NodeGroup("n", 1),), capacity=(FleetCapacityRule("m7i.xlarge"),))
    async with simulated_cluster(fleet, data=tmp_path) as cluster:
        client = cluster.client("test")
        await client.create(NODES, node("booted", "g6.xlarge"))
        await client.create(NODES, node("booting", "g6.xlarge", '{"boot": "200s"}'))
        await client.create(NODES, node("failed", "m7i.xlarge"))
        await client.create(NODES, node("interrupted", "g6.xlarge"))
        await wait_reason(client, "booted", "KubeletReady")
        await wait_reason(client, "booting", "Booting")
        await wait_reason(client, "failed", "InsufficientCapacity")
        await wait_reason(client, "interrupted", "KubeletReady")
        await client.create(PODS, gpu_pod("p", nodeName="booted"), "default")
        await wait_phase(client, "p", "Running")
        await interrupt(client, "interrupted")
        await wait_reason(client, "interrupted", "SpotInterruption")
    await asyncio.sleep(100)
    async with simulated_cluster(Fleet((NodeGroup("m", 1),)), data=tmp_path) as cluster:
        client = cluster.client("test")
        names = {each["metadata"]["name"] for each in (await client.list(NODES)).items}
        assert names == {"m-0", "booted", "booting", "failed", "interrupted"}
        await wait_reason(client, "booted", "KubeletReady")
        assert (await wait_phase(client, "p", "Running"))["spec"]["nodeName"] == "booted"
        assert condition(await find(client, NODES, "failed")) == ("False", "InsufficientCapacity")
        assert condition(await find(client, NODES, "booting"))[0] != "True"
        await wait_gone(client, NODES, "interrupted", 40)
        await wait_reason(client, "booting", "KubeletReady", within=110)


async def test_the_lease_of_a_node_is_owned_by_it() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        await client.create(NODES, node("a", "g6.xlarge"))
        created = await wait_reason(client, "a", "KubeletReady")
        lease = await find(client, LEASES, "a", "kube-node-lease")
        owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": created["metadata"]["uid"]}
        assert lease["metadata"]["ownerReferences"] == [owner]


async def test_a_node_of_the_same_name_is_another_machine() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        await client.create(NODES, node("a", "g6.xlarge"))
        await wait_reason(client, "a", "KubeletReady")
        await client.delete(NODES, "a")
        await client.create(NODES, node("a", "m7i.large"))
        found = await wait_reason(client, "a", "KubeletReady")
        assert GPU not in found["status"]["capacity"]
        await asyncio.sleep(120)
        assert condition(await find(client, NODES, "a"))[0] == "True"


async def test_other_nodes_are_left_alone() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client("test")
        other = {"metadata": {"name": "real", "labels": {MACHINE: "p5.48xlarge"}}}
        await client.create(NODES, other)
        await client.create(NODES, node("undescribed"))
        await asyncio.sleep(10)
        for name in ("real", "undescribed"):
            assert "capacity" not in (await find(client, NODES, name)).get("status", {})
