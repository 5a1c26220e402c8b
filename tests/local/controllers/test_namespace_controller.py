"""Namespaces of an embedded cluster, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from kilonova.kube import Client, Forbidden, Resource
from kilonova.local.controllers.ownership import AnyObject, Metadata
from kilonova.local.controllers.remains import Remains
from kilonova.local.controllers.resources import served_resources
from kilonova.local.nodes import small_fleet
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    PODS,
    SECRETS,
    definition,
    eventually,
    find,
    gone,
    pod,
    running,
    settle,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(fleet=small_fleet()) as cluster:
        yield cluster.client("test")


async def everything_in(client: Client, namespace: str) -> list[str]:
    found: list[str] = []
    for resource in await served_resources(client, AnyObject, "list"):
        if resource.namespaced:
            listing = await client.list(resource, namespace)
            found += [f"{resource.full_name}/{each.metadata.name}" for each in listing.items]
    return found


async def test_every_namespace_has_its_account_and_authority(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "new"}})
    for namespace in ("new", "default", "kube-system"):

        async def furnished(namespace: str = namespace) -> bool:
            return await find(client, CONFIG_MAPS, "kube-root-ca.crt", namespace) is not None

        await eventually(furnished)
        assert await find(client, ACCOUNTS, "default", namespace)


async def test_nothing_is_left_of_a_deleted_namespace(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    widgets = Resource("example.com", "v1", "widgets", "Widget", True, dict)
    await client.create(NAMESPACES, {"metadata": {"name": "busy"}})
    await client.create(PODS, pod("placed"), "busy")
    await client.create(SECRETS, {"metadata": {"name": "secret"}}, "busy")
    await client.create(widgets, {"metadata": {"name": "widget"}}, "busy")
    await settle()
    await client.delete(NAMESPACES, "busy")
    await gone(client, NAMESPACES, "busy")
    assert await everything_in(client, "busy") == []


async def test_a_namespace_can_come_again(client: Client) -> None:
    for _ in range(3):
        first = await client.create(NAMESPACES, {"metadata": {"name": "again"}})
        await client.create(SECRETS, {"metadata": {"name": "secret"}}, "again")
        await client.delete(NAMESPACES, "again")
        await gone(client, NAMESPACES, "again")
        assert first["status"]["phase"] == "Active"
    await client.create(NAMESPACES, {"metadata": {"name": "again"}})

    async def furnished() -> bool:
        return await find(client, ACCOUNTS, "default", "again") is not None

    await eventually(furnished)
    assert await find(client, SECRETS, "secret", "again") is None


async def test_an_object_with_a_finalizer_keeps_its_namespace(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "kept"}})
    metadata = {"name": "holds", "finalizers": ["example.com/x"]}
    await client.create(SECRETS, {"metadata": metadata}, "kept")
    await client.delete(NAMESPACES, "kept")
    await settle()
    namespace = await find(client, NAMESPACES, "kept")
    assert namespace["status"]["phase"] == "Terminating"
    version = namespace["metadata"]["resourceVersion"]
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await client.create(SECRETS, {"metadata": {"name": "late"}}, "kept")
    await settle(60)
    namespace = await find(client, NAMESPACES, "kept")
    assert namespace["metadata"]["resourceVersion"] == version, "nothing new, nothing written"
    assert await everything_in(client, "kept") == ["secrets/holds"]
    await client.patch(SECRETS, "holds", {"metadata": {"finalizers": None}}, "kept")
    await gone(client, NAMESPACES, "kept")


def test_what_remains_is_counted_by_kind_and_finalizer() -> None:
    remains = Remains()
    assert not remains
    pods = Resource("", "v1", "pods", "Pod", True, AnyObject)
    jobs = Resource("batch", "v1", "jobs", "Job", True, AnyObject)
    remains.add(pods, [])
    assert not remains
    remains.add(pods, [AnyObject(Metadata("a", "1", "1", finalizers=("y", "x")))])
    remains.add(jobs, [AnyObject(Metadata("b", "2", "1", finalizers=("x",)))])
    conditions = remains.conditions((), "now")
    told = {each.type: each.message for each in conditions}
    assert told["NamespaceContentRemaining"] == (
        "Some resources are remaining: jobs.batch has 1 resource instances, "
        "pods. has 1 resource instances"
    )
    assert told["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: x in 2 resource instances, "
        "y in 1 resource instances"
    )
    later = remains.conditions(conditions, "later")
    assert later == conditions, "times change only with their condition"
