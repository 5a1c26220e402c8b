"""Silent nodes: conditions, taints, pods that end; and zones that are spared."""

from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import EVENTS, NODES, PODS, eventually, gone, pod, running, settle

FLEET = Fleet((NodeGroup("well", 3),))

pytestmark = pytest.mark.looptime


def lone_node(name: str = "quiet", **labels: str) -> Any:
    """A node that says that it is ready, and then nothing more."""
    return {"metadata": {"name": name, "labels": labels}}


async def join(client: Client, name: str = "quiet", **labels: str) -> None:
    await client.create(NODES, lone_node(name, **labels))
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

    await eventually(so, within=120)


async def run_on(client: Client, name: str, node: str, **spec: Any) -> None:
    """A pod that is ready on a node that nobody plays."""
    await client.create(PODS, pod(name, nodeName=node, **spec), "default")
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": ready}
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


async def test_a_silent_node_becomes_unknown_and_is_tainted() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await settle(40)
        assert (await conditions(client))["Ready"] == "True"
        await become(client, "Unknown")
        node = await client.get(NODES, "quiet")
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert ready["reason"] == "NodeStatusUnknown"
        assert ready["message"] == "Kubelet stopped posting node status."
        assert (await conditions(client))["MemoryPressure"] == "Unknown"

        async def tainted() -> bool:
            wanted = {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
            return await taints(client) == wanted

        await eventually(tainted)
        assert (await conditions(client, "well-0"))["Ready"] == "True"


async def test_a_node_that_is_heard_again_loses_its_taints() -> None:
    async with running(fleet=FLEET) as cluster:
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

        await eventually(clean)


async def test_pods_of_a_lost_node_are_not_ready_and_go_after_five_minutes() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await run_on(client, "worker", "quiet")
        await become(client, "Unknown")

        async def not_ready() -> bool:
            live = await client.get(PODS, "worker", "default")
            return live["status"]["conditions"][0]["status"] == "False"

        await eventually(not_ready)
        await settle(250)
        live = await client.get(PODS, "worker", "default")
        assert "deletionTimestamp" not in live["metadata"]

        async def ending() -> bool:
            live = await client.get(PODS, "worker", "default")
            return "deletionTimestamp" in live["metadata"]

        await eventually(ending, within=120)
        live = await client.get(PODS, "worker", "default")
        target = [each for each in live["status"]["conditions"] if each["type"] != "Ready"]
        assert target[0]["type"] == "DisruptionTarget"
        assert target[0]["reason"] == "DeletionByTaintManager"
        reasons = {each["reason"] for each in (await client.list(EVENTS, "default")).items}
        assert {"TaintManagerEviction", "NodeNotReady"} <= reasons


async def test_a_pod_that_tolerates_the_taint_stays() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await run_on(client, "worker", "quiet", tolerations=[{"operator": "Exists"}])
        await become(client, "Unknown")
        await settle(1000)
        live = await client.get(PODS, "worker", "default")
        assert "deletionTimestamp" not in live["metadata"]


async def test_a_taint_given_by_hand_ends_pods_at_once() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(PODS, pod("worker", nodeName="well-1"), "default")
        await settle()
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await client.patch(NODES, "well-1", {"spec": {"taints": [taint]}})
        await gone(client, PODS, "worker")


async def test_a_cordoned_node_says_so_in_a_taint() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.patch(NODES, "well-0", {"spec": {"unschedulable": True}})

        async def tainted() -> bool:
            return await taints(client, "well-0") == {("unschedulable", "NoSchedule")}

        await eventually(tainted)
        await client.patch(NODES, "well-0", {"spec": {"unschedulable": None}})

        async def clean() -> bool:
            return not await taints(client, "well-0")

        await eventually(clean)


async def test_when_all_nodes_are_silent_no_pod_is_ended() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        for name in ("one", "two"):
            await join(client, name)
            await run_on(client, f"on-{name}", name)
        await become(client, "Unknown", "one")
        await become(client, "Unknown", "two")
        await settle(1000)
        assert await taints(client, "one") == {("unreachable", "NoSchedule")}
        for each in (await client.list(PODS, "default")).items:
            assert "deletionTimestamp" not in each["metadata"]


async def test_nodes_are_given_up_one_in_ten_seconds() -> None:
    async with running(fleet=Fleet((NodeGroup("well", 9),))) as cluster:
        client = cluster.client("test")
        for number in range(3):
            await join(client, f"quiet-{number}", **{"topology.kubernetes.io/zone": "zone-a"})
        for number in range(3):
            await become(client, "Unknown", f"quiet-{number}")
        await settle(3)

        async def given_up() -> int:
            found = [await taints(client, f"quiet-{number}") for number in range(3)]
            return sum(("unreachable", "NoExecute") in each for each in found)

        assert await given_up() == 1
        await settle(30)
        assert await given_up() == 3


async def test_a_lost_node_that_is_deleted_leaves_nothing_behind() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await join(client)
        await become(client, "Unknown")
        await client.delete(NODES, "quiet")
        await settle(120)
        assert len((await client.list(NODES)).items) == 3
