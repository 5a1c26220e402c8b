"""Pods with claims to storage get their volumes, together with a node, or wait and are told why."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.transport import Request
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    eventually,
    settle,
    virtual_time,
)
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    mortal_scheduler,
    transport_of,
)
from tests.scheduler.scheduling import (
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    nodes_of,
    pod,
    scheduler_on,
    scheduling,
)
from tests.scheduler.storing import (
    CLAIMS,
    CSI_NODES,
    HOST,
    SELECTED_NODE,
    VOLUMES,
    make_claim,
    make_class,
    make_gang,
    make_volume,
    using,
    volume_of,
)

pytestmark = virtual_time

NS = "default"


def told(client: Client, name: str, message: str) -> Callable[[], Awaitable[bool]]:
    """Whether an event says so about a pod."""

    async def holds() -> bool:
        events = (await client.list(EVENTS, NS)).items
        return any(
            each["involvedObject"]["name"] == name
            and each["reason"] == "FailedScheduling"
            and message in each["message"]
            for each in events
        )

    return holds


async def test_a_pod_whose_claim_waits_for_it_gets_a_volume_on_its_node_and_runs() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await make_claim(client, "data")
        await client.create(PODS, pod("p", 1, **using("data")), NS)

        async def runs() -> bool:
            found = await client.get(PODS, "p", NS)
            return found.get("status", {}).get("phase") == "Running"

        await eventually(runs)
        node = (await nodes_of(client))["p"]
        claim = await client.get(CLAIMS, "data", NS)
        assert claim["metadata"]["annotations"][SELECTED_NODE] == node
        volume = await client.get(VOLUMES, claim["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [node]


async def test_a_pod_comes_again_where_its_volume_is() -> None:
    async with scheduling(fleet(3, 1)) as (cluster, _):
        client = cluster.client("tester")
        await make_claim(client, "data")
        await client.create(PODS, pod("first", 1, nodeName="node-2", **using("data")), NS)
        await client.patch(
            CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: "node-2"}}}, NS
        )

        async def bound() -> bool:
            return bool(await volume_of(client, "data"))

        await eventually(bound)
        await client.create(PODS, pod("second", 1, **using("data")), NS)
        await settle(30)
        assert not (await nodes_of(client))["second"]
        await client.delete(PODS, "first", NS)
        await eventually(all_placed(client, ["second"]))
        assert (await nodes_of(client))["second"] == "node-2"


async def test_free_volumes_are_given_to_pods_where_these_are_each_once() -> None:
    async with scheduling(fleet(4)) as (cluster, scheduler):
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        for name, node in (("a", "node-1"), ("b", "node-1"), ("c", "node-3")):
            await make_volume(client, name, node)
        claims = [f"data-{index}" for index in range(4)]
        for each in claims:
            await make_claim(client, each, of="static")
        names = await make_gang(client, "g", claims[:3])
        await eventually(all_placed(client, names))
        assert sorted((await nodes_of(client)).values()) == ["node-1", "node-1", "node-3"]
        assert sorted([await volume_of(client, each) for each in claims[:3]]) == ["a", "b", "c"]
        await client.create(PODS, pod("late", 0, **using(claims[3])), NS)
        await eventually(told(client, "late", "no free volume will do"))
        assert [why.reason for why in scheduler.world.not_yet.values()] == ["NoVolume"]
        await make_volume(client, "d", "node-0")
        await eventually(all_placed(client, ["late"]))
        assert (await nodes_of(client))["late"] == "node-0"


async def test_what_pods_took_of_the_free_volumes_of_a_node_is_counted_once() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        for each in ("a", "b", "c"):
            await make_volume(client, each, "node-0")
            await make_claim(client, f"data-{each}", of="static")
        for each in ("a", "b", "c"):
            await client.create(PODS, pod(each, 0, **using(f"data-{each}")), NS)
            await eventually(all_placed(client, [each]), within=5)


async def test_a_volume_that_somebody_else_took_meanwhile_is_not_taken_from_them() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        for name, node in (("a", "node-0"), ("b", "node-1")):
            await make_volume(client, name, node)
        await make_claim(client, "data", of="static")
        transport = Disturbed(transport_of(cluster))
        taken: list[str] = []

        async def take_it_before_it_is_given(request: Request) -> None:
            if request.method == "PATCH" and "/persistentvolumes/" in request.path and not taken:
                taken.append(request.path.rpartition("/")[2])
                other = {"namespace": NS, "name": "other", "uid": "", "kind": CLAIMS.kind}
                await client.patch(VOLUMES, taken[0], {"spec": {"claimRef": other}})

        transport.before = take_it_before_it_is_given
        async with abandoned_scheduler(transport):
            await client.create(PODS, pod("p", 0, **using("data")), NS)
            await eventually(all_placed(client, ["p"]))
        assert {*taken, await volume_of(client, "data")} == {"a", "b"}
        reference = (await client.get(VOLUMES, taken[0]))["spec"]["claimRef"]
        assert reference["name"] == "other"


async def test_a_gang_with_claims_has_all_of_its_volumes_or_none_of_its_nodes() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        await make_volume(client, "a", "node-0")
        for each in ("x", "y"):
            await make_claim(client, each, of="static")
        names = await make_gang(client, "g", ["x", "y"])
        await settle(60)
        assert set((await nodes_of(client)).values()) == {""}
        assert not await volume_of(client, "x")
        assert not await volume_of(client, "y")
        await make_volume(client, "b", "node-1")
        await eventually(all_placed(client, names))
        assert set((await nodes_of(client)).values()) == {"node-0", "node-1"}


async def test_room_is_given_back_and_told_when_a_claim_is_never_bound() -> None:
    async with scheduling(fleet(1), Settings(patience=20)) as (cluster, scheduler):
        client = cluster.client("tester")
        await make_class(client, "broken", "nobody.example.com", "WaitForFirstConsumer")
        await make_claim(client, "lost", of="broken")
        await make_claim(client, "data")
        names = await make_gang(client, "g", ["lost", "data"], gpus=4)
        said = 'persistentvolumeclaim "lost" was not bound within 20 s for node node-0'
        await eventually(told(client, names[0], said))
        assert set((await nodes_of(client)).values()) == {""}
        await client.delete(PODS, names[0], NS)
        await client.create(PODS, pod("other", 8), NS)
        await eventually(all_placed(client, ["other"]))
        claim = await client.get(CLAIMS, "lost", NS)
        assert claim["metadata"]["annotations"][SELECTED_NODE] == "node-0"
        assert len(scheduler.world.cluster.snapshot.bookings) == 1


async def test_another_node_is_found_when_no_volume_can_be_made_on_the_first() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client, "slow", "nobody.example.com", "WaitForFirstConsumer")
        await make_claim(client, "data", of="slow")
        await client.create(PODS, pod("p", 0, **using("data")), NS)

        async def selected() -> str:
            claim = await client.get(CLAIMS, "data", NS)
            return claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")

        async def is_selected() -> bool:
            return bool(await selected())

        await eventually(is_selected)
        first = await selected()
        await client.patch(NODES, first, {"spec": {"unschedulable": True}})
        other = "node-1" if first == "node-0" else "node-0"
        await make_volume(client, "made", other, of="slow")
        await client.patch(CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: None}}}, NS)
        await eventually(all_placed(client, ["p"]))
        assert (await nodes_of(client))["p"] == other
        assert await volume_of(client, "data") == "made"


async def test_a_claim_that_should_have_been_bound_holds_its_pod_back() -> None:
    async with scheduling(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "Immediate")
        await client.create(PODS, pod("p", 0, **using("data")), NS)
        await eventually(told(client, "p", 'persistentvolumeclaim "data" not found'))
        await make_claim(client, "data", of="static")
        unbound = "pod has unbound immediate PersistentVolumeClaims"
        await eventually(told(client, "p", unbound))
        (why,) = scheduler.world.not_yet.values()
        assert (why.reason, why.message) == ("ClaimNotBound", unbound)
        await make_volume(client, "a", "node-0")
        await eventually(all_placed(client, ["p"]))


async def test_no_more_volumes_are_attached_than_a_node_can_have() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        driver = {"name": "disk.example.com", "nodeID": "x", "allocatable": {"count": 1}}
        await make_class(client, "disk", "kubernetes.io/no-provisioner", "Immediate")
        for node in ("node-0", "node-1"):
            body = {"metadata": {"name": node}, "spec": {"drivers": [driver]}}
            await client.create(CSI_NODES, body)
        for each in ("x", "y", "z"):
            csi = {"driver": "disk.example.com", "volumeHandle": each}
            await make_volume(client, each, "", of="disk", csi=csi)
            await make_claim(client, each, of="disk")
            await client.create(PODS, pod(each, 0, **using(each)), NS)
        await settle(30)
        nodes = sorted((await nodes_of(client)).values())
        assert nodes == ["", "node-0", "node-1"]


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_whatever_write_is_the_last_every_claim_ends_up_with_its_volume(
    writes: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await make_class(client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        for name, node in (("a", "node-0"), ("b", "node-1")):
            await make_volume(client, name, node)
        await make_claim(client, "x", of="static")
        await make_claim(client, "y", of="static")
        await make_claim(client, "z")
        names = await make_gang(client, "g", ["x", "y", "z"])
        async with mortal_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await settle(1)
        async with scheduler_on(cluster):
            await eventually(all_placed(client, names))
        assert sorted([await volume_of(client, each) for each in ("x", "y")]) == ["a", "b"]


def near(labels: dict[str, str], namespaces: dict[str, str]) -> dict[str, Any]:
    """Of a pod's spec: on the node of a pod with such labels, in a namespace with such labels."""
    term = {
        "topologyKey": HOST,
        "labelSelector": {"matchLabels": labels},
        "namespaceSelector": {"matchLabels": namespaces},
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": rule}}


async def test_a_gang_stands_near_pods_of_namespaces_that_it_selects() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_gang(client, "g", 2, gpus=1, **near({"app": "db"}, {"team": "blue"}))
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        database = pod("db", 0, nodeSelector={HOST: "node-1"})
        database["metadata"] |= {"namespace": "blue", "labels": {"app": "db"}}
        await client.create(PODS, database, "blue")
        await settle(30)
        assert set((await nodes_of(client)).values()) == {""}
        await client.patch(NAMESPACES, "blue", {"metadata": {"labels": {"team": "blue"}}})
        await eventually(all_placed(client, names))
        assert set((await nodes_of(client)).values()) == {"node-1"}


async def test_who_waits_for_a_neighbour_is_placed_as_soon_as_it_stands() -> None:
    async with scheduling(fleet(3), Settings(retry=3600)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("p", 1, **near({"app": "db"}, {})), NS)
        await settle(5)
        database = pod("db", 0, nodeSelector={HOST: "node-1"})
        database["metadata"]["labels"] = {"app": "db"}
        await client.create(PODS, database, NS)
        await eventually(all_placed(client, ["p"]))
        assert (await nodes_of(client))["p"] == "node-1"
