"""Quotas: what is counted, what is refused, and that they hold against many at once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.kube import AlreadyExists, Client, Forbidden
from kilonova.kube.resource import plain
from kilonova.local.admission.usage import in_scope, resource_of, unsaid, usage
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    definition,
    eventually,
    pod,
    running,
    settle,
)

pytestmark = pytest.mark.looptime

QUOTAS = plain("", "v1", "resourcequotas", "ResourceQuota", True)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s")
    async with running(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


async def quota(client: Client, hard: Any, name: str = "q", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    await client.create(QUOTAS, body, "default")

    async def counted() -> bool:
        found = await client.get(QUOTAS, name, "default")
        return found.get("status", {}).get("hard") == hard

    await eventually(counted)


async def used(client: Client, name: str = "q") -> Any:
    return (await client.get(QUOTAS, name, "default"))["status"]["used"]


async def refusal(client: Client, body: Any) -> str:
    with pytest.raises(Forbidden) as error:
        await client.create(PODS, body, "default")
    return error.value.message


async def test_as_many_pods_as_there_is_quota_for(client: Client) -> None:
    await quota(client, {"pods": "2", "requests.cpu": "3"})
    for name in ("a", "b"):
        await client.create(PODS, pod(name, requests={"cpu": "1"}), "default")
    assert await used(client) == {"pods": "2", "requests.cpu": "2"}
    assert await refusal(client, pod("c", requests={"cpu": "1"})) == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    await client.delete(PODS, "a", "default")
    await settle(10)
    assert await used(client) == {"pods": "1", "requests.cpu": "1"}
    assert await refusal(client, pod("d", requests={"cpu": "2500m"})) == (
        'pods "d" is forbidden: exceeded quota: q, requested: requests.cpu=2500m, '
        "used: requests.cpu=1, limited: requests.cpu=3"
    )
    await client.create(PODS, pod("d", requests={"cpu": "2"}), "default")


async def test_of_many_at_once_only_as_many_pass_as_there_is_room_for(client: Client) -> None:
    await quota(client, {"pods": "5"})
    answers = await asyncio.gather(
        *(client.create(PODS, pod(f"p{number}"), "default") for number in range(50)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, dict) for answer in answers) == 5
    assert sum(isinstance(answer, Forbidden) for answer in answers) == 45
    assert await used(client) == {"pods": "5"}
    await settle(20)
    assert await used(client) == {"pods": "5"}


async def test_what_was_taken_for_nothing_is_given_back(client: Client) -> None:
    await quota(client, {"pods": "3"})
    await client.create(PODS, pod("same"), "default")
    with pytest.raises(AlreadyExists):
        await client.create(PODS, pod("same"), "default")
    await settle(1)
    assert await used(client) == {"pods": "2"}
    await settle(10)
    assert await used(client) == {"pods": "1"}


async def test_a_dry_run_takes_nothing(client: Client) -> None:
    await quota(client, {"pods": "1"})
    await client.create(PODS, pod("p"), "default", dry_run=True)
    assert await used(client) == {"pods": "0"}


async def test_a_pod_that_ended_uses_nothing_but_is_still_an_object(client: Client) -> None:
    await quota(client, {"pods": "1", "count/pods": "5"})
    once = {"metadata": {"annotations": {"sim.kilonova.dev/run-seconds": "2"}}}
    await client.create(PODS, pod("p", restartPolicy="Never", **once), "default")
    await settle(20)
    assert await used(client) == {"pods": "0", "count/pods": "1"}


async def test_a_pod_has_to_say_what_is_counted(client: Client) -> None:
    await quota(client, {"requests.cpu": "1", "limits.memory": "1Gi"})
    assert await refusal(client, pod("p")) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: main; '
        "requests.cpu for: main"
    )


async def test_any_kind_of_object_can_be_counted(client: Client) -> None:
    await client.create(
        plain("apiextensions.k8s.io", "v1", "customresourcedefinitions", "X", False),
        {**definition("example.com", "Toy", "toys"), "kind": "CustomResourceDefinition"},
    )
    await quota(
        client, {"count/toys.example.com": "1", "configmaps": "3", "services.nodeports": "1"}
    )
    assert (await used(client))["configmaps"] == "1"
    toys = plain("example.com", "v1", "toys", "Toy", True)
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
    await settle(10)
    assert await used(client) == {
        "count/toys.example.com": "0",
        "configmaps": "1",
        "services.nodeports": "0",
    }


async def test_scopes_choose_the_pods_that_count(client: Client) -> None:
    await quota(client, {"pods": "1"}, scopes=["BestEffort"])
    await client.create(PODS, pod("free"), "default")
    await client.create(PODS, pod("asks", requests={"cpu": "1"}), "default")
    assert "exceeded quota: q" in await refusal(client, pod("free2"))


async def test_a_quota_at_rest_is_not_written(client: Client) -> None:
    await quota(client, {"pods": "3"})
    await client.create(PODS, pod("p"), "default")
    await settle(20)
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
def test_what_an_object_uses(resource: str, obj: Any, expected: dict[str, str]) -> None:
    assert {name: str(amount) for name, amount in usage(resource, obj, NOW).items()} == expected


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
def test_whose_use_a_name_stands_for(name: str, resource: str) -> None:
    assert resource_of(name) == resource


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
def test_which_pods_are_in_scope(scopes: Any, obj: Any, holds: bool) -> None:
    assert in_scope("pods", obj, scopes) is holds


def test_a_pod_that_speaks_for_the_whole_need_not_speak_for_its_containers() -> None:
    assert unsaid(spec(), ["cpu", "pods"]) == "cpu for: a"
    assert unsaid(spec(resources={"requests": {"cpu": "1"}}), ["cpu", "pods"]) == ""
