"""Pods with PersistentVolumeClaims get their volumes together with a node, or are pending."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.transport import Request
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    running_scheduler,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    crashing_scheduler,
    killed_scheduler,
    transport_of,
)
from tests.scheduler.harness.storage_objects import (
    CLAIMS,
    CSI_NODES,
    HOST,
    SELECTED_NODE,
    VOLUMES,
    create_gang_with_claims,
    create_storage_class,
    create_volume,
    create_volume_claim,
    pod_volumes,
    volume_of,
)

pytestmark = virtual_time

NS = "default"


def has_scheduling_message(
    client: Client, name: str, message: str
) -> Callable[[], Awaitable[bool]]:
    """Whether an event of a pod contains a message."""

    async def has_event() -> bool:
        events = (await client.list(EVENTS, NS)).items
        return any(
            each["involvedObject"]["name"] == name
            and each["reason"] == "FailedScheduling"
            and message in each["message"]
            for each in events
        )

    return has_event


async def test_pod_with_delayed_binding_gets_a_volume_on_its_node_and_runs() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await create_volume_claim(client, "data")
        await client.create(PODS, pod("p", 1, **pod_volumes("data")), NS)

        async def is_running() -> bool:
            found = await client.get(PODS, "p", NS)
            return found.get("status", {}).get("phase") == "Running"

        await wait_for_condition(is_running)
        node = (await nodes_by_pod(client))["p"]
        claim = await client.get(CLAIMS, "data", NS)
        assert claim["metadata"]["annotations"][SELECTED_NODE] == node
        volume = await client.get(VOLUMES, claim["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [node]


async def test_recreated_pod_runs_where_its_volume_is() -> None:
    async with scheduled_cluster(fleet(3, 1)) as (cluster, _):
        client = cluster.client("tester")
        await create_volume_claim(client, "data")
        await client.create(PODS, pod("first", 1, nodeName="node-2", **pod_volumes("data")), NS)
        await client.patch(
            CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: "node-2"}}}, NS
        )

        async def bound() -> bool:
            return bool(await volume_of(client, "data"))

        await wait_for_condition(bound)
        await client.create(PODS, pod("second", 1, **pod_volumes("data")), NS)
        await advance_time(30)
        assert not (await nodes_by_pod(client))["second"]
        await client.delete(PODS, "first", NS)
        await wait_for_condition(are_all_placed(client, ["second"]))
        assert (await nodes_by_pod(client))["second"] == "node-2"


async def test_free_volumes_are_bound_once_on_their_nodes() -> None:
    async with scheduled_cluster(fleet(4)) as (cluster, scheduler):
        client = cluster.client("tester")
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        for name, node in (("a", "node-1"), ("b", "node-1"), ("c", "node-3")):
            await create_volume(client, name, node)
        claims = [f"data-{index}" for index in range(4)]
        for each in claims:
            await create_volume_claim(client, each, storage_class="static")
        names = await create_gang_with_claims(client, "g", claims[:3])
        await wait_for_condition(are_all_placed(client, names))
        assert sorted((await nodes_by_pod(client)).values()) == ["node-1", "node-1", "node-3"]
        assert sorted([await volume_of(client, each) for each in claims[:3]]) == ["a", "b", "c"]
        await client.create(PODS, pod("late", 0, **pod_volumes(claims[3])), NS)
        await wait_for_condition(has_scheduling_message(client, "late", "no matching free volume"))
        assert [why.reason for why in scheduler.cache.not_ready.values()] == ["NoMatchingVolume"]
        await create_volume(client, "d", "node-0")
        await wait_for_condition(are_all_placed(client, ["late"]))
        assert (await nodes_by_pod(client))["late"] == "node-0"


async def test_used_volumes_of_a_node_are_counted_once() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        for each in ("a", "b", "c"):
            await create_volume(client, each, "node-0")
            await create_volume_claim(client, f"data-{each}", storage_class="static")
        for each in ("a", "b", "c"):
            await client.create(PODS, pod(each, 0, **pod_volumes(f"data-{each}")), NS)
            await wait_for_condition(are_all_placed(client, [each]), within=5)


async def test_volume_bound_by_others_is_not_taken() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        for name, node in (("a", "node-0"), ("b", "node-1")):
            await create_volume(client, name, node)
        await create_volume_claim(client, "data", storage_class="static")
        transport = InterceptedTransport(transport_of(cluster))
        taken: list[str] = []

        async def take_it_before_it_is_given(request: Request) -> None:
            if request.method == "PATCH" and "/persistentvolumes/" in request.path and not taken:
                taken.append(request.path.rpartition("/")[2])
                other = {"namespace": NS, "name": "other", "uid": "", "kind": CLAIMS.kind}
                await client.patch(VOLUMES, taken[0], {"spec": {"claimRef": other}})

        transport.intercept = take_it_before_it_is_given
        async with killed_scheduler(transport):
            await client.create(PODS, pod("p", 0, **pod_volumes("data")), NS)
            await wait_for_condition(are_all_placed(client, ["p"]))
        assert {*taken, await volume_of(client, "data")} == {"a", "b"}
        reference = (await client.get(VOLUMES, taken[0]))["spec"]["claimRef"]
        assert reference["name"] == "other"


async def test_gang_with_claims_is_bound_with_all_volumes_or_not_at_all() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        await create_volume(client, "a", "node-0")
        for each in ("x", "y"):
            await create_volume_claim(client, each, storage_class="static")
        names = await create_gang_with_claims(client, "g", ["x", "y"])
        await advance_time(60)
        assert set((await nodes_by_pod(client)).values()) == {""}
        assert not await volume_of(client, "x")
        assert not await volume_of(client, "y")
        await create_volume(client, "b", "node-1")
        await wait_for_condition(are_all_placed(client, names))
        assert set((await nodes_by_pod(client)).values()) == {"node-0", "node-1"}


async def test_capacity_is_released_when_a_claim_is_never_bound() -> None:
    async with scheduled_cluster(fleet(1), SchedulerSettings(eviction_timeout=20)) as (
        cluster,
        scheduler,
    ):
        client = cluster.client("tester")
        await create_storage_class(client, "broken", "nobody.example.com", "WaitForFirstConsumer")
        await create_volume_claim(client, "lost", storage_class="broken")
        await create_volume_claim(client, "data")
        names = await create_gang_with_claims(client, "g", ["lost", "data"], gpus=4)
        message = 'persistentvolumeclaim "lost" was not bound within 20 s for node node-0'
        await wait_for_condition(has_scheduling_message(client, names[0], message))
        assert set((await nodes_by_pod(client)).values()) == {""}
        await client.delete(PODS, names[0], NS)
        await client.create(PODS, pod("other", 8), NS)
        await wait_for_condition(are_all_placed(client, ["other"]))
        claim = await client.get(CLAIMS, "lost", NS)
        assert claim["metadata"]["annotations"][SELECTED_NODE] == "node-0"
        assert len(scheduler.cache.cluster.snapshot.placements) == 1


async def test_other_node_is_used_when_provisioning_fails_on_the_first() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await create_storage_class(client, "slow", "nobody.example.com", "WaitForFirstConsumer")
        await create_volume_claim(client, "data", storage_class="slow")
        await client.create(PODS, pod("p", 0, **pod_volumes("data")), NS)

        async def selected() -> str:
            claim = await client.get(CLAIMS, "data", NS)
            return claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")

        async def is_selected() -> bool:
            return bool(await selected())

        await wait_for_condition(is_selected)
        first = await selected()
        await client.patch(NODES, first, {"spec": {"unschedulable": True}})
        other = "node-1" if first == "node-0" else "node-0"
        await create_volume(client, "made", other, storage_class="slow")
        await client.patch(CLAIMS, "data", {"metadata": {"annotations": {SELECTED_NODE: None}}}, NS)
        await wait_for_condition(are_all_placed(client, ["p"]))
        assert (await nodes_by_pod(client))["p"] == other
        assert await volume_of(client, "data") == "made"


async def test_unbound_immediate_claim_blocks_its_pod() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await create_storage_class(client, "static", "kubernetes.io/no-provisioner", "Immediate")
        await client.create(PODS, pod("p", 0, **pod_volumes("data")), NS)
        await wait_for_condition(
            has_scheduling_message(client, "p", 'persistentvolumeclaim "data" not found')
        )
        await create_volume_claim(client, "data", storage_class="static")
        unbound = "pod has unbound immediate PersistentVolumeClaims"
        await wait_for_condition(has_scheduling_message(client, "p", unbound))
        (why,) = scheduler.cache.not_ready.values()
        assert (why.reason, why.message) == ("ClaimNotBound", unbound)
        await create_volume(client, "a", "node-0")
        await wait_for_condition(are_all_placed(client, ["p"]))


async def test_attach_limit_of_a_node_is_not_exceeded() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        driver = {"name": "disk.example.com", "nodeID": "x", "allocatable": {"count": 1}}
        await create_storage_class(client, "disk", "kubernetes.io/no-provisioner", "Immediate")
        for node in ("node-0", "node-1"):
            body = {"metadata": {"name": node}, "spec": {"drivers": [driver]}}
            await client.create(CSI_NODES, body)
        for each in ("x", "y", "z"):
            csi = {"driver": "disk.example.com", "volumeHandle": each}
            await create_volume(client, each, "", storage_class="disk", csi=csi)
            await create_volume_claim(client, each, storage_class="disk")
            await client.create(PODS, pod(each, 0, **pod_volumes(each)), NS)
        await advance_time(30)
        nodes = sorted((await nodes_by_pod(client)).values())
        assert nodes == ["", "node-0", "node-1"]


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_every_claim_is_bound_after_a_crash_at_any_write(
    writes: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await create_storage_class(
            client, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"
        )
        for name, node in (("a", "node-0"), ("b", "node-1")):
            await create_volume(client, name, node)
        await create_volume_claim(client, "x", storage_class="static")
        await create_volume_claim(client, "y", storage_class="static")
        await create_volume_claim(client, "z")
        names = await create_gang_with_claims(client, "g", ["x", "y", "z"])
        async with crashing_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(1)
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, names))
        assert sorted([await volume_of(client, each) for each in ("x", "y")]) == ["a", "b"]


def near(labels: dict[str, str], namespaces: dict[str, str]) -> dict[str, Any]:
    """Part of a pod's spec: affinity to pods with these labels, in namespaces with these labels."""
    term = {
        "topologyKey": HOST,
        "labelSelector": {"matchLabels": labels},
        "namespaceSelector": {"matchLabels": namespaces},
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": rule}}


async def test_pod_affinity_with_namespace_selector() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_gang(client, "g", 2, gpus=1, **near({"app": "db"}, {"team": "blue"}))
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        database = pod("db", 0, nodeSelector={HOST: "node-1"})
        database["metadata"] |= {"namespace": "blue", "labels": {"app": "db"}}
        await client.create(PODS, database, "blue")
        await advance_time(30)
        assert set((await nodes_by_pod(client)).values()) == {""}
        await client.patch(NAMESPACES, "blue", {"metadata": {"labels": {"team": "blue"}}})
        await wait_for_condition(are_all_placed(client, names))
        assert set((await nodes_by_pod(client)).values()) == {"node-1"}


async def test_gang_with_pod_affinity_is_placed_once_the_other_pod_is_bound() -> None:
    async with scheduled_cluster(fleet(3), SchedulerSettings(retry_interval=3600)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("p", 1, **near({"app": "db"}, {})), NS)
        await advance_time(5)
        database = pod("db", 0, nodeSelector={HOST: "node-1"})
        database["metadata"]["labels"] = {"app": "db"}
        await client.create(PODS, database, NS)
        await wait_for_condition(are_all_placed(client, ["p"]))
        assert (await nodes_by_pod(client))["p"] == "node-1"
