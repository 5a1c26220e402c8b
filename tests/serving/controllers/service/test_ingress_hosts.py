"""Services that ask for one host: the oldest one has it, the others report that and wait."""

from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from kilonova.api.serving import InferenceService
from kilonova.kube import NotFound
from kilonova.serving.ingress_hosts import select_host_owner
from tests.local.embedded_cluster import (
    NAMESPACES,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.serving.builders.objects import service
from tests.serving.serving_cluster import (
    INFERENCE_SERVICES,
    INGRESSES,
    NAMESPACE,
    ServingCluster,
    inference_service,
    serving_cluster,
)

pytestmark = virtual_time

HOST = {"ingress": {"host": "sonic.example.com", "ingressClassName": "nginx"}}
URL = "https://sonic.example.com"
OTHER_NAMESPACE = "other"


async def create(cluster: ServingCluster, name: str, namespace: str, gateway: Any) -> None:
    body = inference_service(name, gateway=gateway)
    await cluster.client.create(INFERENCE_SERVICES, body, namespace)


async def read_status(cluster: ServingCluster, name: str, namespace: str) -> Any:
    found = await cluster.client.get(INFERENCE_SERVICES, name, namespace)
    return found.get("status", {})


def find_reason(status: Any, condition: str) -> str:
    found = (each for each in status.get("conditions", ()) if each["type"] == condition)
    return next((each["reason"] for each in found if each["status"] == "False"), "")


async def wait_for_host(cluster: ServingCluster, name: str, namespace: str, *, has: bool) -> Any:
    """Wait until a service with running gateways has the host, and its Ingress, or has not."""
    status: Any = {}

    async def is_settled() -> bool:
        nonlocal status
        status = await read_status(cluster, name, namespace)
        try:
            await cluster.client.get(INGRESSES, name, namespace)
        except NotFound:
            is_there = False
        else:
            is_there = True
        is_taken = find_reason(status, "GatewayReady") == "HostTaken"
        is_serving = has and status.get("phase") == "Ready"
        return is_there == has and (is_serving or is_taken) and is_taken != has

    try:
        await wait_for_condition(is_settled, within=120)
    except AssertionError:
        raise AssertionError(f"status of {namespace}/{name}: {status}") from None
    return status


def test_oldest_service_has_a_host_then_the_first_by_name() -> None:
    def build(name: str, second: int, namespace: str = "a") -> InferenceService:
        found = service(gateway=HOST)
        found.metadata = structs.replace(
            found.metadata,
            name=name,
            namespace=namespace,
            creation_timestamp=f"2026-05-01T00:00:{second:02}Z",
        )
        return found

    ordered = [build("b", 1), build("a", 2), build("a", 2, "b"), build("c", 2), build("a", 10)]
    for position, first in enumerate(ordered):
        for rest in permutations(ordered[position:]):
            assert select_host_owner(rest) is first
    assert select_host_owner(()) is None


@pytest.mark.parametrize("namespace", [NAMESPACE, OTHER_NAMESPACE])
async def test_host_belongs_to_the_oldest_service_until_it_goes(namespace: str) -> None:
    async with serving_cluster() as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": OTHER_NAMESPACE}})
        await create(cluster, "web", NAMESPACE, HOST)
        assert (await wait_for_host(cluster, "web", NAMESPACE, has=True))["url"] == URL
        await advance_time(2)
        # By name it would be first.
        await create(cluster, "a", namespace, HOST)
        status = await wait_for_host(cluster, "a", namespace, has=False)
        assert find_reason(status, "Ready") == "HostTaken"
        assert find_reason(status, "ConfigurationAccepted") == "HostTaken"
        [message] = [
            each["message"] for each in status["conditions"] if each["type"] == "GatewayReady"
        ]
        assert message == (
            "spec.gateway.ingress.host: sonic.example.com is the host of InferenceService "
            "default/web, which is older: choose another host"
        )
        assert status["phase"] == "Pending"
        assert status["url"] != URL, "there is another service"
        assert (await wait_for_host(cluster, "web", NAMESPACE, has=True))["phase"] == "Ready"

        await cluster.client.delete(INFERENCE_SERVICES, "web", NAMESPACE)
        status = await wait_for_host(cluster, "a", namespace, has=True)
        assert status["url"] == URL
        assert find_reason(status, "ConfigurationAccepted") == ""


async def test_host_is_free_when_its_service_asks_for_another_one() -> None:
    async with serving_cluster() as cluster:
        await create(cluster, "web-a", NAMESPACE, HOST)
        await create(cluster, "web-b", NAMESPACE, HOST)
        await wait_for_host(cluster, "web-a", NAMESPACE, has=True)
        await wait_for_host(cluster, "web-b", NAMESPACE, has=False)
        events = {reason for reason, _ in await cluster.list_events("web-b")}
        assert "HostTaken" in events
        other = {"gateway": {"ingress": {"host": "a.example.com"}}}
        await cluster.patch(other, "web-a")
        await wait_for_host(cluster, "web-b", NAMESPACE, has=True)
        # It is taken back by the one that is older.
        await cluster.patch({"gateway": HOST}, "web-a")
        await wait_for_host(cluster, "web-a", NAMESPACE, has=True)
        status = await wait_for_host(cluster, "web-b", NAMESPACE, has=False)
        assert status["phase"] == "Degraded"


async def test_host_of_another_ingress_class_is_another_host() -> None:
    async with serving_cluster() as cluster:
        await create(cluster, "web", NAMESPACE, HOST)
        internal = {"ingress": {"host": "sonic.example.com", "ingressClassName": "internal"}}
        await create(cluster, "internal", NAMESPACE, internal)
        annotated = {"kubernetes.io/ingress.class": "nginx"}
        same = {"ingress": {"host": "sonic.example.com", "annotations": annotated}}
        await advance_time(2)
        await create(cluster, "same", NAMESPACE, same)
        await wait_for_host(cluster, "web", NAMESPACE, has=True)
        await wait_for_host(cluster, "internal", NAMESPACE, has=True)
        await wait_for_host(cluster, "same", NAMESPACE, has=False)
