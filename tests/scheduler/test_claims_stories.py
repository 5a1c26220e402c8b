"""Pods that claim devices get them, together with a node, or wait and are told why."""

import asyncio
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.transport import Request
from kilonova.scheduler.scheduler import Scheduler
from tests.local.embedded_cluster import NODES, PODS, eventually, find, settle, virtual_time
from tests.scheduler.dra import (
    CLAIMS,
    DRIVER,
    SLICES,
    asking,
    given,
    make_claim,
    make_class,
    make_template,
    of_claim,
    of_template,
    publish,
    publish_slice,
)
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    is_binding,
    mortal_scheduler,
    transport_of,
)
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    nodes_of,
    pod,
    scheduler_on,
    scheduling,
)

pytestmark = virtual_time

NS = "default"


async def node_names(client: Client) -> list[str]:
    listing = await client.list(NODES)
    return sorted(each["metadata"]["name"] for each in listing.items)


async def test_a_pod_with_a_claim_of_its_own_runs_where_its_devices_are() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        there = (await node_names(client))[1]
        await make_class(client)
        await publish(client, there, 2)
        await make_template(client, NS, "one", asking())
        await client.create(PODS, pod("p", 0, **of_template("one")), NS)

        async def runs() -> bool:
            found = await client.get(PODS, "p", NS)
            return found.get("status", {}).get("phase") == "Running"

        await eventually(runs)
        assert (await nodes_of(client))["p"] == there
        (claim,) = (await client.list(CLAIMS, NS)).items
        allocation = claim["status"]["allocation"]
        assert allocation["devices"]["results"] == [
            {"request": "gpu", "driver": DRIVER, "pool": there, "device": "gpu-0"}
        ]
        (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == [there]
        assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]
        assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


async def test_devices_are_free_again_when_their_pod_is_gone() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await make_class(client)
        await publish(client, node, 1)
        await make_template(client, NS, "one", asking())
        for name in ("first", "second"):
            await client.create(PODS, pod(name, 0, **of_template("one")), NS)
        await eventually(all_placed(client, ["first"]))
        await settle(30)
        assert not (await nodes_of(client))["second"]
        await client.delete(PODS, "first", NS)
        await eventually(all_placed(client, ["second"]))
        assert list((await given(client, NS)).values()) == [[f"{node}/gpu-0"]]


async def test_a_gang_gets_devices_for_all_of_its_pods_or_none() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        nodes = await node_names(client)
        await make_class(client)
        await make_template(client, NS, "two", asking(2))
        await publish(client, nodes[0], 4)
        names = await create_gang(client, "g", 3, gpus=0, **of_template("two"))
        await settle(30)
        assert not await given(client, NS)
        await publish(client, nodes[1], 2)
        await eventually(all_placed(client, names))
        devices = [each for some in (await given(client, NS)).values() for each in some]
        assert len(devices) == len(set(devices)) == 6


async def test_pods_that_share_a_claim_stand_together() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client)
        for node in await node_names(client):
            await publish(client, node, 1)
        await make_claim(client, NS, "shared", asking())
        names = await create_gang(client, "g", 4, gpus=0, **of_claim("shared"))
        await eventually(all_placed(client, names))
        assert len(set((await nodes_of(client)).values())) == 1
        claim = await client.get(CLAIMS, "shared", NS)
        assert {each["name"] for each in claim["status"]["reservedFor"]} == set(names)


async def test_a_scheduler_that_died_before_it_bound_goes_on_with_the_same_devices() -> None:
    async with a_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        nodes = await node_names(client)
        await make_class(client)
        for node in nodes:
            await publish(client, node, 2)
        await make_template(client, NS, "one", asking())
        await client.create(PODS, pod("p", 0, **of_template("one")), NS)

        async def claims() -> list[dict[str, Any]]:
            return (await client.list(CLAIMS, NS)).items

        await eventually(lambda: _any(claims))
        await _allocate_by_hand(client, nodes[2], "gpu-1")
        async with scheduler_on(cluster):
            await eventually(all_placed(client, ["p"]))
        assert (await nodes_of(client))["p"] == nodes[2]
        assert list((await given(client, NS)).values()) == [[f"{nodes[2]}/gpu-1"]]


async def test_devices_on_a_node_that_will_not_do_are_given_back() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        nodes = await node_names(client)
        await make_class(client)
        for node in nodes:
            await publish(client, node, 1)
        await make_template(client, NS, "one", asking())
        await client.create(PODS, pod("p", 0, **of_template("one")), NS)

        async def claims() -> list[dict[str, Any]]:
            return (await client.list(CLAIMS, NS)).items

        await eventually(lambda: _any(claims))
        await _allocate_by_hand(client, nodes[0], "gpu-0")
        await client.patch(NODES, nodes[0], {"spec": {"unschedulable": True}})
        async with scheduler_on(cluster):
            await eventually(all_placed(client, ["p"]))
        assert (await nodes_of(client))["p"] == nodes[1]
        assert list((await given(client, NS)).values()) == [[f"{nodes[1]}/gpu-0"]]


async def test_who_is_more_important_gets_the_devices_of_others() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await make_class(client)
        await make_priority(client, "high", 1000)
        await publish(client, node, 2)
        await make_template(client, NS, "two", asking(2))
        await client.create(PODS, pod("low", 0, **of_template("two")), NS)
        await eventually(all_placed(client, ["low"]))
        spec = of_template("two")
        await client.create(PODS, pod("high", 0, priorityClassName="high", **spec), NS)
        await eventually(all_placed(client, ["high"]))
        assert await find(client, PODS, "low") is None
        assert list((await given(client, NS)).values()) == [[f"{node}/gpu-0", f"{node}/gpu-1"]]


async def test_slices_of_one_device_are_never_more_than_the_whole() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await make_class(client)
        counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
        await publish_slice(client, node, {"nodeName": node, "sharedCounters": counters}, slices=2)

        def part(name: str, memory: str) -> dict[str, Any]:
            consumed = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
            return {"name": name, "consumesCounters": [consumed]}

        devices = [part("whole", "80Gi"), *(part(f"half-{each}", "40Gi") for each in range(2))]
        spec = {"nodeName": node, "devices": devices}
        await publish_slice(client, node, spec, name=f"{node}-devices", slices=2)
        await make_template(client, NS, "one", asking())
        for name in ("a", "b", "c"):
            await client.create(PODS, pod(name, 0, **of_template("one")), NS)
        await settle(60)
        taken = sorted(each for some in (await given(client, NS)).values() for each in some)
        assert taken in (
            [f"{node}/whole"],
            [f"{node}/half-0", f"{node}/half-1"],
        )


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", range(1, 7))
async def test_whatever_write_is_the_last_no_device_is_lost_or_given_twice(
    writes: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await make_class(client)
        for node in await node_names(client):
            await publish(client, node, 2)
        await make_template(client, NS, "two", asking(2))
        names = await create_gang(client, "g", 2, gpus=0, **of_template("two"))
        async with mortal_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await settle(1)
        async with scheduler_on(cluster):
            await eventually(all_placed(client, names))
            await settle(5)
        claims = (await client.list(CLAIMS, NS)).items
        users = [each["name"] for claim in claims for each in claim["status"]["reservedFor"]]
        assert sorted(users) == names
        devices = [each for some in (await given(client, NS)).values() for each in some]
        assert len(devices) == len(set(devices)) == 4


async def test_a_binding_that_is_refused_gives_devices_back() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        node, other = await node_names(client)
        await make_class(client)
        await publish(client, node, 1)
        await make_template(client, NS, "one", asking())
        transport = Disturbed(transport_of(cluster))

        async def take_pod_before_it_is_bound(request: Request) -> None:
            if is_binding(request):
                transport.before = None
                await client.bind("p", NS, other)

        transport.before = take_pod_before_it_is_bound
        async with abandoned_scheduler(transport):
            await client.create(PODS, pod("p", 0, **of_template("one")), NS)
            await eventually(all_placed(client, ["p"]))
            await settle(5)
            assert (await nodes_of(client))["p"] == other
            assert not await given(client, NS)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (of_claim("absent"), "is claim default/absent, which is not there"),
        (of_template("odd"), "is no DeviceClass that is there"),
    ],
)
async def test_a_pod_that_waits_for_a_claim_is_told_so(spec: dict[str, Any], said: str) -> None:
    async with scheduling(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await make_template(client, NS, "odd", asking(class_="nothing"))
        await client.create(PODS, pod("p", 0, **spec), NS)
        await settle(30)
        (why,) = scheduler.world.not_yet.values()
        assert why.reason == "ClaimNotReady"
        assert said in why.message


async def test_an_extended_resource_that_devices_provide_is_claimed_for_the_pod() -> None:
    async with scheduling(fleet(2, gpus=0)) as (cluster, scheduler):
        client = cluster.client("tester")
        there = (await node_names(client))[1]
        await client.create(PODS, requesting("first", "example.com/gpu", 2), NS)
        await make_class(client, extendedResourceName="example.com/gpu")
        await publish(client, there, 3)
        await eventually(all_placed(client, ["first"]))
        assert (await nodes_of(client))["first"] == there
        (claim,) = (await client.list(CLAIMS, NS)).items
        assert claim["metadata"]["ownerReferences"][0]["name"] == "first"
        found = (await client.get(PODS, "first", NS))["status"]["extendedResourceClaimStatus"]
        assert found == {
            "resourceClaimName": claim["metadata"]["name"],
            "requestMappings": [
                {
                    "containerName": "main",
                    "resourceName": "example.com/gpu",
                    "requestName": "container-0-request-0",
                }
            ],
        }
        assert list((await given(client, NS)).values()) == [[f"{there}/gpu-0", f"{there}/gpu-1"]]
        await client.create(
            PODS, requesting("second", "deviceclass.resource.kubernetes.io/gpu", 2), NS
        )
        await eventually(lambda: _waits(scheduler, "second"))
        await client.delete(PODS, "first", NS)
        await eventually(all_placed(client, ["second"]))
        await eventually(lambda: _has_claims(client, 1))


@pytest.mark.parametrize("last_arrives", [True, False])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_an_extended_resource_is_claimed_once_wherever_the_scheduler_dies(
    writes: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(1, gpus=0)) as cluster:
        client = cluster.client("tester")
        await make_class(client, extendedResourceName="example.com/gpu")
        await publish(client, (await node_names(client))[0], 2)
        await client.create(PODS, requesting("p", "example.com/gpu", 2), NS)
        async with mortal_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await settle(1)
        async with scheduler_on(cluster):
            await eventually(all_placed(client, ["p"]))
        assert await _has_claims(client, 1)
        assert len(next(iter((await given(client, NS)).values()))) == 2


async def test_an_extended_resource_is_no_longer_claimed_once_a_node_advertises_it() -> None:
    async with scheduling(fleet(2, gpus=0)) as (cluster, scheduler):
        client = cluster.client("tester")
        first, _ = await node_names(client)
        await make_class(client, extendedResourceName="example.com/gpu")
        await client.create(PODS, requesting("p", "example.com/gpu", 2), NS)
        await eventually(lambda: _waits(scheduler, "p"))
        found = (await client.get(NODES, first))["status"]["allocatable"]
        amounts = {**found, "example.com/gpu": "4"}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        await client.patch(NODES, first, status, subresource="status")
        await eventually(all_placed(client, ["p"]))
        assert (await nodes_of(client))["p"] == first
        assert await _has_claims(client, 0)


def requesting(name: str, resource: str, count: int) -> dict[str, Any]:
    """A pod that requests an extended resource."""
    found, amounts = pod(name, 0), {resource: str(count)}
    found["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return found


async def _waits(scheduler: Scheduler, pod: str) -> bool:
    return f"pod/{NS}/{pod}" in scheduler.world.waiting


async def _has_claims(client: Client, count: int) -> bool:
    return len((await client.list(CLAIMS, NS)).items) == count


async def _any(listing: Any) -> bool:
    return bool(await listing())


async def _allocate_by_hand(client: Client, node: str, device: str) -> None:
    (claim,) = (await client.list(CLAIMS, NS)).items
    found = await client.get(PODS, "p", NS)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    name = claim["metadata"]["name"]
    protection = "resource.kubernetes.io/delete-protection"
    await client.patch(CLAIMS, name, {"metadata": {"finalizers": [protection]}}, NS)
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": found["metadata"]["uid"]}],
    }
    await client.patch(CLAIMS, name, {"status": status}, NS, subresource="status")


async def test_a_device_that_changes_under_its_name_is_judged_anew() -> None:
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("100Gi")) >= 0'
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client)
        await publish(client, "node-0", 1, "80Gi")
        await make_template(client, NS, "large", asking(selector=large))
        await client.create(PODS, pod("p", 0, **of_template("large")), NS)
        await settle(10)
        assert (await nodes_of(client))["p"] == ""
        device = {"name": "gpu-0", "capacity": {"memory": {"value": "141Gi"}}}
        await client.patch(SLICES, "node-0-slice", {"spec": {"devices": [device]}})
        await eventually(all_placed(client, ["p"]))


async def test_pods_that_share_six_claims_neither_stall_others_nor_are_forgotten() -> None:
    async with scheduling(fleet(20)) as (cluster, _):
        client = cluster.client("tester")
        await make_class(client)
        for name in await node_names(client):
            await publish(client, name, 12)
        claims: dict[str, list[dict[str, str]]] = {}
        for gang_name in ("fits", "torn"):
            names = [f"{gang_name}-{number}" for number in range(6)]
            for name in names:
                await make_claim(client, NS, name, asking())
            claims[gang_name] = [{"name": name, "resourceClaimName": name} for name in names]
        # Two pods of 8 GPUs each have no node together, where the devices of both are.
        await create_gang(client, "torn", 2, gpus=8, resourceClaims=claims["torn"])
        fits = await create_gang(client, "fits", 2, gpus=4, resourceClaims=claims["fits"])
        await client.create(PODS, pod("other"), NS)
        await eventually(all_placed(client, [*fits, "other"]))
        nodes = await nodes_of(client)
        assert nodes["fits-0"] == nodes["fits-1"]

        async def told() -> bool:
            status = (await client.get(GANGS, "torn", NS)).get("status", {})
            return any(
                each["type"] == "Unschedulable" and each["status"] == "True" and each["message"]
                for each in status.get("conditions", [])
            )

        await eventually(told)
        assert not nodes["torn-0"]
