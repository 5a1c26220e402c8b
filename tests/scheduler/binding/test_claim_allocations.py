"""Pods with ResourceClaims get devices together with a node, or are pending with a reason."""

import asyncio
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.transport import Request
from kilonova.scheduler.assembly import Scheduler
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.dra_objects import (
    CLAIMS,
    DRIVER,
    SLICES,
    allocated_devices,
    claim_spec,
    create_claim,
    create_claim_template,
    create_device_class,
    pod_claim_by_name,
    pod_claim_from_template,
    publish_node_devices,
    publish_slice,
)
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_gang,
    create_priority_class,
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
    is_binding,
    killed_scheduler,
    transport_of,
)

pytestmark = virtual_time

NS = "default"


async def node_names(client: Client) -> list[str]:
    listing = await client.list(NODES)
    return sorted(each["metadata"]["name"] for each in listing.items)


async def test_pod_with_a_generated_claim_runs_where_its_devices_are() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        node = (await node_names(client))[1]
        await create_device_class(client)
        await publish_node_devices(client, node, 2)
        await create_claim_template(client, NS, "one", claim_spec())
        await client.create(PODS, pod("p", 0, **pod_claim_from_template("one")), NS)

        async def is_running() -> bool:
            found = await client.get(PODS, "p", NS)
            return found.get("status", {}).get("phase") == "Running"

        await wait_for_condition(is_running)
        assert (await nodes_by_pod(client))["p"] == node
        (claim,) = (await client.list(CLAIMS, NS)).items
        allocation = claim["status"]["allocation"]
        assert allocation["devices"]["results"] == [
            {"request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0"}
        ]
        (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == [node]
        assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]
        assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


async def test_devices_are_free_when_their_pod_is_deleted() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await create_device_class(client)
        await publish_node_devices(client, node, 1)
        await create_claim_template(client, NS, "one", claim_spec())
        for name in ("first", "second"):
            await client.create(PODS, pod(name, 0, **pod_claim_from_template("one")), NS)
        await wait_for_condition(are_all_placed(client, ["first"]))
        await advance_time(30)
        assert not (await nodes_by_pod(client))["second"]
        await client.delete(PODS, "first", NS)
        await wait_for_condition(are_all_placed(client, ["second"]))
        assert list((await allocated_devices(client, NS)).values()) == [[f"{node}/gpu-0"]]


async def test_gang_gets_devices_for_all_of_its_pods_or_none() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        nodes = await node_names(client)
        await create_device_class(client)
        await create_claim_template(client, NS, "two", claim_spec(2))
        await publish_node_devices(client, nodes[0], 4)
        names = await create_gang(client, "g", 3, gpus=0, **pod_claim_from_template("two"))
        await advance_time(30)
        assert not await allocated_devices(client, NS)
        await publish_node_devices(client, nodes[1], 2)
        await wait_for_condition(are_all_placed(client, names))
        devices = [each for some in (await allocated_devices(client, NS)).values() for each in some]
        assert len(devices) == len(set(devices)) == 6


async def test_pods_that_share_a_claim_run_on_one_node() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await create_device_class(client)
        for node in await node_names(client):
            await publish_node_devices(client, node, 1)
        await create_claim(client, NS, "shared", claim_spec())
        names = await create_gang(client, "g", 4, gpus=0, **pod_claim_by_name("shared"))
        await wait_for_condition(are_all_placed(client, names))
        assert len(set((await nodes_by_pod(client)).values())) == 1
        claim = await client.get(CLAIMS, "shared", NS)
        assert {each["name"] for each in claim["status"]["reservedFor"]} == set(names)


async def test_restart_before_binding_keeps_the_allocated_devices() -> None:
    async with embedded_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        nodes = await node_names(client)
        await create_device_class(client)
        for node in nodes:
            await publish_node_devices(client, node, 2)
        await create_claim_template(client, NS, "one", claim_spec())
        await client.create(PODS, pod("p", 0, **pod_claim_from_template("one")), NS)

        async def claims() -> list[dict[str, Any]]:
            return (await client.list(CLAIMS, NS)).items

        await wait_for_condition(lambda: _any(claims))
        await _allocate_by_hand(client, nodes[2], "gpu-1")
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, ["p"]))
        assert (await nodes_by_pod(client))["p"] == nodes[2]
        assert list((await allocated_devices(client, NS)).values()) == [[f"{nodes[2]}/gpu-1"]]


async def test_devices_on_an_unsuitable_node_are_deallocated() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        nodes = await node_names(client)
        await create_device_class(client)
        for node in nodes:
            await publish_node_devices(client, node, 1)
        await create_claim_template(client, NS, "one", claim_spec())
        await client.create(PODS, pod("p", 0, **pod_claim_from_template("one")), NS)

        async def claims() -> list[dict[str, Any]]:
            return (await client.list(CLAIMS, NS)).items

        await wait_for_condition(lambda: _any(claims))
        await _allocate_by_hand(client, nodes[0], "gpu-0")
        await client.patch(NODES, nodes[0], {"spec": {"unschedulable": True}})
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, ["p"]))
        assert (await nodes_by_pod(client))["p"] == nodes[1]
        assert list((await allocated_devices(client, NS)).values()) == [[f"{nodes[1]}/gpu-0"]]


async def test_higher_priority_pod_preempts_for_devices() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await create_device_class(client)
        await create_priority_class(client, "high", 1000)
        await publish_node_devices(client, node, 2)
        await create_claim_template(client, NS, "two", claim_spec(2))
        await client.create(PODS, pod("low", 0, **pod_claim_from_template("two")), NS)
        await wait_for_condition(are_all_placed(client, ["low"]))
        spec = pod_claim_from_template("two")
        await client.create(PODS, pod("high", 0, priorityClassName="high", **spec), NS)
        await wait_for_condition(are_all_placed(client, ["high"]))
        assert await find(client, PODS, "low") is None
        assert list((await allocated_devices(client, NS)).values()) == [
            [f"{node}/gpu-0", f"{node}/gpu-1"]
        ]


async def test_partitions_of_a_device_never_exceed_it() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        (node,) = await node_names(client)
        await create_device_class(client)
        counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
        await publish_slice(client, node, {"nodeName": node, "sharedCounters": counters}, slices=2)

        def part(name: str, memory: str) -> dict[str, Any]:
            consumed = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
            return {"name": name, "consumesCounters": [consumed]}

        devices = [part("whole", "80Gi"), *(part(f"half-{each}", "40Gi") for each in range(2))]
        spec = {"nodeName": node, "devices": devices}
        await publish_slice(client, node, spec, name=f"{node}-devices", slices=2)
        await create_claim_template(client, NS, "one", claim_spec())
        for name in ("a", "b", "c"):
            await client.create(PODS, pod(name, 0, **pod_claim_from_template("one")), NS)
        await advance_time(60)
        taken = sorted(
            each for some in (await allocated_devices(client, NS)).values() for each in some
        )
        assert taken in (
            [f"{node}/whole"],
            [f"{node}/half-0", f"{node}/half-1"],
        )


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", range(1, 7))
async def test_crash_at_any_write_leaks_or_doubles_no_device(
    writes: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await create_device_class(client)
        for node in await node_names(client):
            await publish_node_devices(client, node, 2)
        await create_claim_template(client, NS, "two", claim_spec(2))
        names = await create_gang(client, "g", 2, gpus=0, **pod_claim_from_template("two"))
        async with crashing_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(1)
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, names))
            await advance_time(5)
        claims = (await client.list(CLAIMS, NS)).items
        users = [each["name"] for claim in claims for each in claim["status"]["reservedFor"]]
        assert sorted(users) == names
        devices = [each for some in (await allocated_devices(client, NS)).values() for each in some]
        assert len(devices) == len(set(devices)) == 4


async def test_failed_binding_deallocates_devices() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        node, other = await node_names(client)
        await create_device_class(client)
        await publish_node_devices(client, node, 1)
        await create_claim_template(client, NS, "one", claim_spec())
        transport = InterceptedTransport(transport_of(cluster))

        async def take_pod_before_it_is_bound(request: Request) -> None:
            if is_binding(request):
                transport.intercept = None
                await client.bind("p", NS, other)

        transport.intercept = take_pod_before_it_is_bound
        async with killed_scheduler(transport):
            await client.create(PODS, pod("p", 0, **pod_claim_from_template("one")), NS)
            await wait_for_condition(are_all_placed(client, ["p"]))
            await advance_time(5)
            assert (await nodes_by_pod(client))["p"] == other
            assert not await allocated_devices(client, NS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (pod_claim_by_name("absent"), "is claim default/absent, which does not exist"),
        (pod_claim_from_template("odd"), "is not an existing DeviceClass"),
    ],
)
async def test_pod_waiting_for_a_claim_reports_it(spec: dict[str, Any], message: str) -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await create_claim_template(client, NS, "odd", claim_spec(class_="nothing"))
        await client.create(PODS, pod("p", 0, **spec), NS)
        await advance_time(30)
        (why,) = scheduler.cache.not_ready.values()
        assert why.reason == "ClaimNotReady"
        assert message in why.message


async def test_extended_resource_provided_by_devices_is_claimed() -> None:
    async with scheduled_cluster(fleet(2, gpus=0)) as (cluster, scheduler):
        client = cluster.client("tester")
        node = (await node_names(client))[1]
        await client.create(PODS, pod_requesting("first", "example.com/gpu", 2), NS)
        await create_device_class(client, extendedResourceName="example.com/gpu")
        await publish_node_devices(client, node, 3)
        await wait_for_condition(are_all_placed(client, ["first"]))
        assert (await nodes_by_pod(client))["first"] == node
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
        assert list((await allocated_devices(client, NS)).values()) == [
            [f"{node}/gpu-0", f"{node}/gpu-1"]
        ]
        await client.create(
            PODS, pod_requesting("second", "deviceclass.resource.kubernetes.io/gpu", 2), NS
        )
        await wait_for_condition(lambda: _is_waiting(scheduler, "second"))
        await client.delete(PODS, "first", NS)
        await wait_for_condition(are_all_placed(client, ["second"]))
        await wait_for_condition(lambda: _has_claims(client, 1))


@pytest.mark.parametrize("last_arrives", [True, False])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_extended_resource_is_claimed_once_across_crashes(
    writes: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(1, gpus=0)) as cluster:
        client = cluster.client("tester")
        await create_device_class(client, extendedResourceName="example.com/gpu")
        await publish_node_devices(client, (await node_names(client))[0], 2)
        await client.create(PODS, pod_requesting("p", "example.com/gpu", 2), NS)
        async with crashing_scheduler(cluster, writes, last_arrives=last_arrives) as died:
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(1)
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, ["p"]))
        assert await _has_claims(client, 1)
        assert len(next(iter((await allocated_devices(client, NS)).values()))) == 2


async def test_advertised_extended_resource_is_not_claimed() -> None:
    async with scheduled_cluster(fleet(2, gpus=0)) as (cluster, scheduler):
        client = cluster.client("tester")
        first, _ = await node_names(client)
        await create_device_class(client, extendedResourceName="example.com/gpu")
        await client.create(PODS, pod_requesting("p", "example.com/gpu", 2), NS)
        await wait_for_condition(lambda: _is_waiting(scheduler, "p"))
        found = (await client.get(NODES, first))["status"]["allocatable"]
        amounts = {**found, "example.com/gpu": "4"}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        await client.patch(NODES, first, status, subresource="status")
        await wait_for_condition(are_all_placed(client, ["p"]))
        assert (await nodes_by_pod(client))["p"] == first
        assert await _has_claims(client, 0)


def pod_requesting(name: str, resource: str, count: int) -> dict[str, Any]:
    """A pod that requests an extended resource."""
    found, amounts = pod(name, 0), {resource: str(count)}
    found["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return found


async def _is_waiting(scheduler: Scheduler, pod: str) -> bool:
    return f"pod/{NS}/{pod}" in scheduler.cache.waiting


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


async def test_changed_device_of_the_same_name_is_reevaluated() -> None:
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("100Gi")) >= 0'
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await create_device_class(client)
        await publish_node_devices(client, "node-0", 1, "80Gi")
        await create_claim_template(client, NS, "large", claim_spec(selector=large))
        await client.create(PODS, pod("p", 0, **pod_claim_from_template("large")), NS)
        await advance_time(10)
        assert (await nodes_by_pod(client))["p"] == ""
        device = {"name": "gpu-0", "capacity": {"memory": {"value": "141Gi"}}}
        await client.patch(SLICES, "node-0-slice", {"spec": {"devices": [device]}})
        await wait_for_condition(are_all_placed(client, ["p"]))


async def test_pods_that_share_six_claims_do_not_stall_other_pods() -> None:
    async with scheduled_cluster(fleet(20)) as (cluster, _):
        client = cluster.client("tester")
        await create_device_class(client)
        for name in await node_names(client):
            await publish_node_devices(client, name, 12, kind="nic")
        claims: dict[str, list[dict[str, str]]] = {}
        for gang_name in ("fits", "torn"):
            names = [f"{gang_name}-{number}" for number in range(6)]
            for name in names:
                await create_claim(client, NS, name, claim_spec())
            claims[gang_name] = [{"name": name, "resourceClaimName": name} for name in names]
        # Two pods of 8 GPUs each do not fit together on the node with the devices of both.
        await create_gang(client, "torn", 2, gpus=8, resourceClaims=claims["torn"])
        fits = await create_gang(client, "fits", 2, gpus=4, resourceClaims=claims["fits"])
        await client.create(PODS, pod("other"), NS)
        await wait_for_condition(are_all_placed(client, [*fits, "other"]))
        nodes = await nodes_by_pod(client)
        assert nodes["fits-0"] == nodes["fits-1"]

        async def is_reported() -> bool:
            status = (await client.get(GANGS, "torn", NS)).get("status", {})
            return any(
                each["type"] == "Unschedulable" and each["status"] == "True" and each["message"]
                for each in status.get("conditions", [])
            )

        await wait_for_condition(is_reported)
        assert not nodes["torn-0"]
