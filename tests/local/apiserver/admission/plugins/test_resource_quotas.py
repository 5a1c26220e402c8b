"""ResourceQuotas: what is counted and rejected, also under concurrent creates."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.kube import AlreadyExists, Client, Forbidden
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.quota.evaluators import (
    matches_scopes,
    missing_resources,
    object_usage,
    resource_for_name,
)
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    advance_time,
    definition,
    pod,
    run_cluster,
    wait_for_condition,
)

pytestmark = pytest.mark.looptime

QUOTAS = unstructured_resource("", "v1", "resourcequotas", "ResourceQuota", True)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


async def quota(client: Client, hard: Any, name: str = "q", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    await client.create(QUOTAS, body, "default")

    async def counted() -> bool:
        found = await client.get(QUOTAS, name, "default")
        return found.get("status", {}).get("hard") == hard

    await wait_for_condition(counted)


async def used(client: Client, name: str = "q") -> Any:
    return (await client.get(QUOTAS, name, "default"))["status"]["used"]


async def rejection_of(client: Client, body: Any) -> str:
    with pytest.raises(Forbidden) as error:
        await client.create(PODS, body, "default")
    return error.value.message


async def test_pods_are_created_up_to_the_quota(client: Client) -> None:
    await quota(client, {"pods": "2", "requests.cpu": "3"})
    for name in ("a", "b"):
        await client.create(PODS, pod(name, requests={"cpu": "1"}), "default")
    assert await used(client) == {"pods": "2", "requests.cpu": "2"}
    assert await rejection_of(client, pod("c", requests={"cpu": "1"})) == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    await client.delete(PODS, "a", "default")
    await advance_time(10)
    assert await used(client) == {"pods": "1", "requests.cpu": "1"}
    assert await rejection_of(client, pod("d", requests={"cpu": "2500m"})) == (
        'pods "d" is forbidden: exceeded quota: q, requested: requests.cpu=2500m, '
        "used: requests.cpu=1, limited: requests.cpu=3"
    )
    await client.create(PODS, pod("d", requests={"cpu": "2"}), "default")


async def test_concurrent_creates_do_not_exceed_the_quota(client: Client) -> None:
    await quota(client, {"pods": "5"})
    responses = await asyncio.gather(
        *(client.create(PODS, pod(f"p{number}"), "default") for number in range(50)),
        return_exceptions=True,
    )
    assert sum(isinstance(response, dict) for response in responses) == 5
    assert sum(isinstance(response, Forbidden) for response in responses) == 45
    assert await used(client) == {"pods": "5"}
    await advance_time(20)
    assert await used(client) == {"pods": "5"}


async def test_unused_quota_charge_is_released(client: Client) -> None:
    await quota(client, {"pods": "3"})
    await client.create(PODS, pod("same"), "default")
    with pytest.raises(AlreadyExists):
        await client.create(PODS, pod("same"), "default")
    await advance_time(1)
    assert await used(client) == {"pods": "2"}
    await advance_time(10)
    assert await used(client) == {"pods": "1"}


async def test_dry_run_charges_nothing(client: Client) -> None:
    await quota(client, {"pods": "1"})
    await client.create(PODS, pod("p"), "default", dry_run=True)
    assert await used(client) == {"pods": "0"}


async def test_completed_pod_uses_no_resources_but_counts_as_object(client: Client) -> None:
    await quota(client, {"pods": "1", "count/pods": "5"})
    once = {"metadata": {"annotations": {"sim.kilonova.dev/run-seconds": "2"}}}
    await client.create(PODS, pod("p", restartPolicy="Never", **once), "default")
    await advance_time(20)
    assert await used(client) == {"pods": "0", "count/pods": "1"}


async def test_pod_must_specify_quota_resources(client: Client) -> None:
    await quota(client, {"requests.cpu": "1", "limits.memory": "1Gi"})
    assert await rejection_of(client, pod("p")) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: main; '
        "requests.cpu for: main"
    )


async def test_any_kind_of_object_can_be_counted(client: Client) -> None:
    await client.create(
        unstructured_resource(
            "apiextensions.k8s.io", "v1", "customresourcedefinitions", "X", False
        ),
        {**definition("example.com", "Toy", "toys"), "kind": "CustomResourceDefinition"},
    )
    await quota(
        client, {"count/toys.example.com": "1", "configmaps": "3", "services.nodeports": "1"}
    )
    assert (await used(client))["configmaps"] == "1"
    toys = unstructured_resource("example.com", "v1", "toys", "Toy", True)
    await client.create(toys, {"metadata": {"name": "a"}}, "default")
    with pytest.raises(Forbidden) as error:
        await client.create(toys, {"metadata": {"name": "b"}}, "default")
    assert error.value.message == (
        'toys.example.com "b" is forbidden: exceeded quota: q, requested: '
        "count/toys.example.com=1, used: count/toys.example.com=1, limited: "
        "count/toys.example.com=1"
    )
    ports = [{"name": f"p{port}", "port": port} for port in (80, 81)]
    service = {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "ports": ports}}
    await client.create(SERVICES, service, "default")
    with pytest.raises(Forbidden):
        await client.patch(SERVICES, "s", {"spec": {"type": "NodePort"}}, "default")
    await client.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, "default")
    assert (await used(client))["configmaps"] == "2"
    await client.delete(toys, "a", "default")
    await client.delete(CONFIG_MAPS, "m", "default")
    await advance_time(10)
    assert await used(client) == {
        "count/toys.example.com": "0",
        "configmaps": "1",
        "services.nodeports": "0",
    }


async def test_scopes_select_the_counted_pods(client: Client) -> None:
    await quota(client, {"pods": "1"}, scopes=["BestEffort"])
    await client.create(PODS, pod("free"), "default")
    await client.create(PODS, pod("asks", requests={"cpu": "1"}), "default")
    assert "exceeded quota: q" in await rejection_of(client, pod("free2"))


async def test_unchanged_quota_is_not_written(client: Client) -> None:
    await quota(client, {"pods": "3"})
    await client.create(PODS, pod("p"), "default")
    await advance_time(20)
    before = await client.get(QUOTAS, "q", "default")
    await asyncio.sleep(1000)
    assert await client.get(QUOTAS, "q", "default") == before


def spec(**fields: Any) -> Any:
    return {"spec": {"containers": [{"name": "a"}], **fields}}


GPU = {"resources": {"requests": {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}}}


@pytest.mark.parametrize(
    ("resource", "obj", "expected"),
    [
        ("pods", {**spec(), "status": {"phase": "Failed"}}, {"count/pods": "1"}),
        (
            "pods",
            {"spec": {"containers": [{"name": "a", **GPU}], "overhead": {"cpu": "1"}}},
            {
                "count/pods": "1",
                "pods": "1",
                "requests.nvidia.com/gpu": "2",
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "cpu": "1",
                "requests.cpu": "1",
            },
        ),
        (
            "services",
            {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}},
            {
                "count/services": "1",
                "services": "1",
                "services.nodeports": "2",
                "services.loadbalancers": "1",
            },
        ),
        (
            "persistentvolumeclaims",
            {
                "spec": {
                    "storageClassName": "gold",
                    "resources": {"requests": {"storage": "5Gi"}},
                }
            },
            {
                "persistentvolumeclaims": "1",
                "count/persistentvolumeclaims": "1",
                "requests.storage": "5Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
            },
        ),
        ("secrets", {}, {"count/secrets": "1", "secrets": "1"}),
        ("deployments.apps", {}, {"count/deployments.apps": "1"}),
    ],
)
def test_usage_of_an_object(resource: str, obj: Any, expected: dict[str, str]) -> None:
    assert {
        name: str(amount) for name, amount in object_usage(resource, obj, NOW).items()
    } == expected


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", "pods"),
        ("limits.memory", "pods"),
        ("requests.nvidia.com/gpu", "pods"),
        ("requests.storage", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("services.loadbalancers", "services"),
        ("count/deployments.apps", "deployments.apps"),
        ("secrets", "secrets"),
        ("nonsense", ""),
    ],
)
def test_resource_of_a_quota_name(name: str, resource: str) -> None:
    assert resource_for_name(name) == resource


PRIORITY: Any = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}


@pytest.mark.parametrize(
    ("scopes", "obj", "holds"),
    [
        ({"scopes": ["Terminating"]}, spec(activeDeadlineSeconds=5), True),
        ({"scopes": ["NotTerminating"]}, spec(activeDeadlineSeconds=5), False),
        ({"scopes": ["BestEffort"]}, spec(), True),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, spec(), False),
        ({"scopeSelector": {"matchExpressions": [PRIORITY]}}, spec(priorityClassName="high"), True),
        ({"scopeSelector": {"matchExpressions": [PRIORITY]}}, spec(), False),
        (
            {"scopeSelector": {"matchExpressions": [{**PRIORITY, "operator": "NotIn"}]}},
            spec(),
            True,
        ),
    ],
)
def test_quota_scopes_of_pods(scopes: Any, obj: Any, holds: bool) -> None:
    assert matches_scopes("pods", obj, scopes) is holds


def test_pod_level_resources_satisfy_the_quota() -> None:
    assert missing_resources(spec(), ["cpu", "pods"]) == "cpu for: a"
    assert missing_resources(spec(resources={"requests": {"cpu": "1"}}), ["cpu", "pods"]) == ""
