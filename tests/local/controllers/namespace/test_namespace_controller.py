"""Namespaces of an embedded cluster, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from kilonova.kube import Client, Forbidden, Resource
from kilonova.local.controllers.garbagecollector.graph import Metadata, OwnedObject
from kilonova.local.controllers.namespace.remaining_content import RemainingContent
from kilonova.local.controllers.shared.discovery import discover_resources
from kilonova.local.simnodes import small_fleet
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    PODS,
    SECRETS,
    advance_time,
    definition,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with run_cluster(fleet=small_fleet()) as cluster:
        yield cluster.client("test")


async def everything_in(client: Client, namespace: str) -> list[str]:
    found: list[str] = []
    for resource in await discover_resources(client, OwnedObject, "list"):
        if resource.namespaced:
            listing = await client.list(resource, namespace)
            found += [f"{resource.full_name}/{each.metadata.name}" for each in listing.items]
    return found


async def test_every_namespace_has_its_service_account_and_root_ca(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "new"}})
    for namespace in ("new", "default", "kube-system"):

        async def furnished(namespace: str = namespace) -> bool:
            return await find(client, CONFIG_MAPS, "kube-root-ca.crt", namespace) is not None

        await wait_for_condition(furnished)
        assert await find(client, ACCOUNTS, "default", namespace)


async def test_nothing_is_left_of_a_deleted_namespace(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    widgets = Resource("example.com", "v1", "widgets", "Widget", True, dict)
    await client.create(NAMESPACES, {"metadata": {"name": "busy"}})
    await client.create(PODS, pod("placed"), "busy")
    await client.create(SECRETS, {"metadata": {"name": "secret"}}, "busy")
    await client.create(widgets, {"metadata": {"name": "widget"}}, "busy")
    await advance_time()
    await client.delete(NAMESPACES, "busy")
    await wait_deleted(client, NAMESPACES, "busy")
    assert await everything_in(client, "busy") == []


async def test_deleted_namespace_can_be_recreated(client: Client) -> None:
    for _ in range(3):
        first = await client.create(NAMESPACES, {"metadata": {"name": "again"}})
        await client.create(SECRETS, {"metadata": {"name": "secret"}}, "again")
        await client.delete(NAMESPACES, "again")
        await wait_deleted(client, NAMESPACES, "again")
        assert first["status"]["phase"] == "Active"
    await client.create(NAMESPACES, {"metadata": {"name": "again"}})

    async def furnished() -> bool:
        return await find(client, ACCOUNTS, "default", "again") is not None

    await wait_for_condition(furnished)
    assert await find(client, SECRETS, "secret", "again") is None


async def test_object_with_a_finalizer_blocks_namespace_deletion(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "kept"}})
    metadata = {"name": "holds", "finalizers": ["example.com/x"]}
    await client.create(SECRETS, {"metadata": metadata}, "kept")
    await client.delete(NAMESPACES, "kept")
    await advance_time()
    namespace = await find(client, NAMESPACES, "kept")
    assert namespace["status"]["phase"] == "Terminating"
    version = namespace["metadata"]["resourceVersion"]
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await client.create(SECRETS, {"metadata": {"name": "late"}}, "kept")
    await advance_time(60)
    namespace = await find(client, NAMESPACES, "kept")
    assert namespace["metadata"]["resourceVersion"] == version, "nothing new, nothing written"
    assert await everything_in(client, "kept") == ["secrets/holds"]
    await client.patch(SECRETS, "holds", {"metadata": {"finalizers": None}}, "kept")
    await wait_deleted(client, NAMESPACES, "kept")


def test_what_remains_is_counted_by_kind_and_finalizer() -> None:
    remains = RemainingContent()
    assert not remains
    pods = Resource("", "v1", "pods", "Pod", True, OwnedObject)
    jobs = Resource("batch", "v1", "jobs", "Job", True, OwnedObject)
    remains.add(pods, [])
    assert not remains
    remains.add(pods, [OwnedObject(Metadata("a", "1", "1", finalizers=("y", "x")))])
    remains.add(jobs, [OwnedObject(Metadata("b", "2", "1", finalizers=("x",)))])
    conditions = remains.build_conditions((), "now")
    reported = {each.type: each.message for each in conditions}
    assert reported["NamespaceContentRemaining"] == (
        "Some resources are remaining: jobs.batch has 1 resource instances, "
        "pods. has 1 resource instances"
    )
    assert reported["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: x in 2 resource instances, "
        "y in 1 resource instances"
    )
    later = remains.build_conditions(conditions, "later")
    assert later == conditions, "times change only with their condition"
