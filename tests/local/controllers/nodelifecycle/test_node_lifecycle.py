"""Unreachable nodes: conditions, taints, evictions; and disrupted zones."""

from typing import Any

from kilonova.kube import Client
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    advance_time,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

FLEET = Fleet((NodeGroup("well", 3),))

pytestmark = virtual_time


def single_node(name: str = "quiet", **labels: str) -> Any:
    """A node that reports that it is ready, and then stops posting status."""
    return {"metadata": {"name": name, "labels": labels}}


async def join(client: Client, name: str = "quiet", **labels: str) -> None:
    await client.create(NODES, single_node(name, **labels))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    body = {"status": {"conditions": [ready]}}
    await client.patch(NODES, name, body, subresource="status")


async def conditions(client: Client, name: str = "quiet") -> dict[str, str]:
    node = await client.get(NODES, name)
    return {each["type"]: each["status"] for each in node["status"]["conditions"]}


async def taints(client: Client, name: str = "quiet") -> set[tuple[str, str]]:
    node = await client.get(NODES, name)
    return {
        (each["key"].removeprefix("node.kubernetes.io/"), each["effect"])
        for each in node["spec"].get("taints", ())
    }


async def become(client: Client, status: str, name: str = "quiet") -> None:
    async def so() -> bool:
        return (await conditions(client, name))["Ready"] == status

    await wait_for_condition(so, within=120)


async def run_on(client: Client, name: str, node: str, **spec: Any) -> None:
    """A ready pod on a node without a kubelet."""
    await client.create(PODS, pod(name, nodeName=node, **spec), "default")
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": ready}
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


async def test_an_unreachable_node_becomes_unknown_and_is_tainted() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await advance_time(40)
        assert (await conditions(client))["Ready"] == "True"
        await become(client, "Unknown")
        node = await client.get(NODES, "quiet")
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert ready["reason"] == "NodeStatusUnknown"
        assert ready["message"] == "Kubelet stopped posting node status."
        assert (await conditions(client))["MemoryPressure"] == "Unknown"

        async def tainted() -> bool:
            expected = {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
            return await taints(client) == expected

        await wait_for_condition(tainted)
        assert (await conditions(client, "well-0"))["Ready"] == "True"


async def test_a_node_that_posts_status_again_loses_its_taints() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await become(client, "Unknown")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure"):
            ready_or_not = [ready, {"type": kind, "status": "False"}]
        body = {"status": {"conditions": ready_or_not}}
        await client.patch(NODES, "quiet", body, subresource="status")

        async def clean() -> bool:
            return not await taints(client)

        await wait_for_condition(clean)


async def test_pods_of_an_unreachable_node_are_not_ready_and_evicted_after_five_minutes() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await run_on(client, "worker", "quiet")
        await become(client, "Unknown")

        async def not_ready() -> bool:
            live = await client.get(PODS, "worker", "default")
            return live["status"]["conditions"][0]["status"] == "False"

        await wait_for_condition(not_ready)
        await advance_time(250)
        live = await client.get(PODS, "worker", "default")
        assert "deletionTimestamp" not in live["metadata"]

        async def ending() -> bool:
            live = await client.get(PODS, "worker", "default")
            return "deletionTimestamp" in live["metadata"]

        await wait_for_condition(ending, within=120)
        live = await client.get(PODS, "worker", "default")
        target = [each for each in live["status"]["conditions"] if each["type"] != "Ready"]
        assert target[0]["type"] == "DisruptionTarget"
        assert target[0]["reason"] == "DeletionByTaintManager"
        reasons = {each["reason"] for each in (await client.list(EVENTS, "default")).items}
        assert {"TaintManagerEviction", "NodeNotReady"} <= reasons


async def test_a_pod_that_tolerates_the_taint_stays() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await run_on(client, "worker", "quiet", tolerations=[{"operator": "Exists"}])
        await become(client, "Unknown")
        await advance_time(1000)
        live = await client.get(PODS, "worker", "default")
        assert "deletionTimestamp" not in live["metadata"]


async def test_manual_no_execute_taint_evicts_pods_at_once() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, pod("worker", nodeName="well-1"), "default")
        await advance_time()
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await client.patch(NODES, "well-1", {"spec": {"taints": [taint]}})
        await wait_deleted(client, PODS, "worker")


async def test_cordoned_node_is_tainted() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.patch(NODES, "well-0", {"spec": {"unschedulable": True}})

        async def tainted() -> bool:
            return await taints(client, "well-0") == {("unschedulable", "NoSchedule")}

        await wait_for_condition(tainted)
        await client.patch(NODES, "well-0", {"spec": {"unschedulable": None}})

        async def clean() -> bool:
            return not await taints(client, "well-0")

        await wait_for_condition(clean)


async def test_when_all_nodes_are_unreachable_no_pod_is_evicted() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        for name in ("one", "two"):
            await join(client, name)
            await run_on(client, f"on-{name}", name)
        await become(client, "Unknown", "one")
        await become(client, "Unknown", "two")
        await advance_time(1000)
        assert await taints(client, "one") == {("unreachable", "NoSchedule")}
        for each in (await client.list(PODS, "default")).items:
            assert "deletionTimestamp" not in each["metadata"]


async def test_taint_is_taken_back_when_the_last_node_is_lost() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await join(client, "one")
        await advance_time(30)
        await join(client, "two")
        evicted = {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}

        async def is_evicted() -> bool:
            return await taints(client, "one") == evicted

        await wait_for_condition(is_evicted)
        assert (await conditions(client, "two"))["Ready"] == "True"
        await become(client, "Unknown", "two")
        await advance_time(60)
        assert await taints(client, "one") == {("unreachable", "NoSchedule")}


async def test_nodes_are_tainted_one_in_ten_seconds() -> None:
    async with run_cluster(fleet=Fleet((NodeGroup("well", 9),))) as cluster:
        client = cluster.client("test")
        for number in range(3):
            await join(client, f"quiet-{number}", **{"topology.kubernetes.io/zone": "zone-a"})
        for number in range(3):
            await become(client, "Unknown", f"quiet-{number}")
        await advance_time(3)

        async def given_up() -> int:
            found = [await taints(client, f"quiet-{number}") for number in range(3)]
            return sum(("unreachable", "NoExecute") in each for each in found)

        assert await given_up() == 1
        await advance_time(30)
        assert await given_up() == 3


async def test_deleted_unreachable_node_leaves_no_pods() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await become(client, "Unknown")
        await client.delete(NODES, "quiet")
        await advance_time(120)
        assert len((await client.list(NODES)).items) == 3
