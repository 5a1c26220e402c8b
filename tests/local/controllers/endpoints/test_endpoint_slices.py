"""EndpointSlices and Endpoints follow the pods that a Service selects."""

from typing import Any

from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    PODS,
    SERVICES,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

SLICES = unstructured_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
ENDPOINTS = unstructured_resource("", "v1", "endpoints", "Endpoints", True)
FLEET = Fleet((NodeGroup("a", 2, zones=("zone-a",)),))

pytestmark = virtual_time


def service(name: str = "web", **spec: Any) -> Any:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {
        "metadata": {"name": name, "labels": {"team": "blue"}},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


def server(name: str, port: int = 8080, **spec: Any) -> Any:
    made = pod(name, metadata={"labels": {"app": "web"}}, **spec)
    made["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": port}]
    return made


async def slices(client: Any, name: str = "web") -> list[Any]:
    selector = f"kubernetes.io/service-name={name}"
    found = await client.list(SLICES, "default", label_selector=selector)
    return found.items


async def endpoints(client: Any, name: str = "web") -> list[Any]:
    return [each for one in await slices(client, name) for each in one["endpoints"] or ()]


async def test_a_service_without_pods_has_one_empty_slice() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")

        async def there() -> bool:
            return len(await slices(client)) == 1

        await wait_for_condition(there)
        (found,) = await slices(client)
        assert found["addressType"] == "IPv4"
        assert found["endpoints"] is None or found["endpoints"] == []
        assert found["metadata"]["labels"] == {
            "team": "blue",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"


async def test_ready_pods_are_listed_with_node_zone_and_target() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        for number in range(3):
            await client.create(PODS, server(f"web-{number}"), "default")

        async def all_ready() -> bool:
            found = await endpoints(client)
            return len(found) == 3 and all(each["conditions"]["ready"] for each in found)

        await wait_for_condition(all_ready)
        (found,) = await slices(client)
        assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        for each in found["endpoints"]:
            live = await client.get(PODS, each["targetRef"]["name"], "default")
            assert each["addresses"] == [live["status"]["podIP"]]
            assert each["targetRef"]["uid"] == live["metadata"]["uid"]
            assert each["nodeName"] == live["spec"]["nodeName"]
            assert each["zone"] == "zone-a"
        old = await find(client, ENDPOINTS, "web")
        assert len(old["subsets"][0]["addresses"]) == 3
        assert old["subsets"][0]["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


async def test_a_deleted_pod_leaves_and_the_others_stay_in_their_slice() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        for number in range(3):
            await client.create(PODS, server(f"web-{number}"), "default")

        async def has(count: int) -> bool:
            found = await endpoints(client)
            return len(found) == count and all(each["conditions"]["ready"] for each in found)

        await wait_for_condition(lambda: has(3))
        (before,) = await slices(client)
        await client.delete(PODS, "web-1", "default")
        await wait_for_condition(lambda: has(2))
        (after,) = await slices(client)
        assert after["metadata"]["name"] == before["metadata"]["name"]
        left = [each["targetRef"]["name"] for each in before["endpoints"]]
        left.remove("web-1")
        assert [each["targetRef"]["name"] for each in after["endpoints"]] == left


async def test_pods_with_other_ports_get_a_slice_of_their_own() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        await client.create(PODS, server("a", 8080), "default")
        await client.create(PODS, server("b", 9090), "default")

        async def both() -> bool:
            return len(await endpoints(client)) == 2

        await wait_for_condition(both)
        ports = sorted(each["ports"][0]["port"] for each in await slices(client))
        assert ports == [8080, 9090]


async def test_more_than_a_hundred_endpoints_take_several_slices() -> None:
    fleet = Fleet((NodeGroup("a", 3, start="100ms"),))
    async with run_cluster(fleet=fleet) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        for number in range(230):
            await client.create(PODS, server(f"web-{number}"), "default")

        async def all_there() -> bool:
            return len(await endpoints(client)) == 230

        await wait_for_condition(all_there)
        await advance_time()
        found = await slices(client)
        assert sum(len(each["endpoints"]) for each in found) == 230
        assert all(len(each["endpoints"]) <= 100 for each in found)
        assert len(found) <= 4
        targets = [each["targetRef"]["name"] for each in await endpoints(client)]
        assert len(set(targets)) == 230


async def test_changing_the_selector_or_the_labels_of_a_pod_moves_it() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        await client.create(PODS, server("a"), "default")

        async def names(*expected: str) -> bool:
            found = [each["targetRef"]["name"] for each in await endpoints(client)]
            return sorted(found) == sorted(expected)

        await wait_for_condition(lambda: names("a"))
        await client.patch(PODS, "a", {"metadata": {"labels": {"app": "other"}}}, "default")
        await wait_for_condition(lambda: names())
        await client.patch(SERVICES, "web", {"spec": {"selector": {"app": "other"}}}, "default")
        await wait_for_condition(lambda: names("a"))


async def test_headless_services_name_pods_by_their_hostname() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(clusterIP="None"), "default")
        await client.create(PODS, server("db-0", hostname="db-0", subdomain="web"), "default")

        async def there() -> bool:
            return bool(await endpoints(client))

        await wait_for_condition(there)
        (found,) = await slices(client)
        assert found["endpoints"][0]["hostname"] == "db-0"
        assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


async def test_publishing_not_ready_addresses_lists_them_as_ready() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(publishNotReadyAddresses=True), "default")
        waiting = server("a", readinessGates=[{"conditionType": "example.com/ok"}])
        await client.create(PODS, waiting, "default")

        async def there() -> bool:
            return bool(await endpoints(client))

        await wait_for_condition(there)
        (found,) = await endpoints(client)
        assert found["conditions"]["ready"] is True


async def test_slices_and_endpoints_go_with_their_service() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        await client.create(PODS, server("a"), "default")

        async def there() -> bool:
            return bool(await endpoints(client))

        await wait_for_condition(there)
        await client.delete(SERVICES, "web", "default")
        await wait_deleted(client, ENDPOINTS, "web")

        async def none() -> bool:
            return not await slices(client)

        await wait_for_condition(none)


async def test_an_unchanged_service_is_not_written() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await client.create(SERVICES, service(), "default")
        await client.create(PODS, server("a"), "default")

        async def there() -> bool:
            found = await endpoints(client)
            return bool(found) and found[0]["conditions"]["ready"]

        await wait_for_condition(there)
        await advance_time()
        before = [each["metadata"]["resourceVersion"] for each in await slices(client)]
        await client.patch(PODS, "a", {"metadata": {"annotations": {"x": "y"}}}, "default")
        await advance_time()
        assert [each["metadata"]["resourceVersion"] for each in await slices(client)] == before


async def test_a_service_without_selector_is_left_alone() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        made = service()
        del made["spec"]["selector"]
        await client.create(SERVICES, made, "default")
        await advance_time()
        assert await slices(client) == []
        assert await find(client, ENDPOINTS, "web") is None
