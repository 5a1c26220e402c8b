"""Deletion of dependents, namespaces and custom kinds, on both servers."""

from typing import Any
from uuid import uuid4

import pytest

from kilonova.kube import Client, NotFound
from kilonova.kube.client.options import PropagationPolicy
from kilonova.kube.client.resource import unstructured_resource
from tests.conftest import Api
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    SECRETS,
    definition,
    find,
    wait_deleted,
    wait_for_condition,
)


def owned_by(obj: Any, *, blocks: bool = True) -> Any:
    metadata = obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": blocks,
    }


async def family(client: Client, namespace: str, *finalizers: str) -> None:
    owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, namespace)
    metadata = {
        "name": "child",
        "ownerReferences": [owned_by(owner)],
        "finalizers": list(finalizers),
    }
    await client.create(SECRETS, {"metadata": metadata}, namespace)
    await wait_for_collector_sync(client, namespace)


async def wait_for_collector_sync(client: Client, namespace: str) -> None:
    """Wait until the collector has observed all objects: it deletes one whose owner never existed.

    A busy collector may observe an owner's deletion before it observes the dependent.
    """
    never = {"metadata": {"name": "never", "uid": str(uuid4())}}
    metadata = {"name": "stray", "ownerReferences": [owned_by(never)]}
    await client.create(SECRETS, {"metadata": metadata}, namespace)
    await wait_deleted(client, SECRETS, "stray", namespace)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_are_deleted_with_their_owner(
    api: Api, propagation: PropagationPolicy
) -> None:
    async with api.client() as client:
        await family(client, api.namespace)
        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation_policy=propagation)
        await wait_deleted(client, CONFIG_MAPS, "owner", api.namespace)
        await wait_deleted(client, SECRETS, "child", api.namespace)


async def test_a_foreground_deletion_waits(api: Api) -> None:
    async with api.client() as client:
        await family(client, api.namespace, "example.com/keep")

        async def child_is_going() -> bool:
            child = await find(client, SECRETS, "child", api.namespace)
            return "deletionTimestamp" in child["metadata"]

        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation_policy="Foreground")
        await wait_for_condition(child_is_going)
        owner = await find(client, CONFIG_MAPS, "owner", api.namespace)
        assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
        await client.patch(SECRETS, "child", {"metadata": {"finalizers": None}}, api.namespace)
        await wait_deleted(client, CONFIG_MAPS, "owner", api.namespace)


async def test_orphaned_dependents_stay(api: Api) -> None:
    async with api.client() as client:
        await family(client, api.namespace)
        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation_policy="Orphan")
        await wait_deleted(client, CONFIG_MAPS, "owner", api.namespace)
        child = await find(client, SECRETS, "child", api.namespace)
        assert "ownerReferences" not in child["metadata"]


async def test_ownership_cycle_is_deleted_completely(api: Api) -> None:
    async with api.client() as client:
        first = await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, api.namespace)
        metadata = {"name": "b", "ownerReferences": [owned_by(first)]}
        second = await client.create(CONFIG_MAPS, {"metadata": metadata}, api.namespace)
        change = {"metadata": {"ownerReferences": [owned_by(second)]}}
        await client.patch(CONFIG_MAPS, "a", change, api.namespace)
        await client.delete(CONFIG_MAPS, "a", api.namespace, propagation_policy="Foreground")
        await wait_deleted(client, CONFIG_MAPS, "a", api.namespace)
        await wait_deleted(client, CONFIG_MAPS, "b", api.namespace)


async def test_namespace_gets_its_default_objects_and_is_emptied(api: Api) -> None:
    async with api.client() as client:
        name = f"{api.namespace}-going"
        await client.create(NAMESPACES, {"metadata": {"name": name}})

        async def furnished() -> bool:
            account = await find(client, ACCOUNTS, "default", name)
            authority = await find(client, CONFIG_MAPS, "kube-root-ca.crt", name)
            return account is not None and authority is not None

        await wait_for_condition(furnished)
        metadata = {"name": "kept", "finalizers": ["example.com/keep"]}
        await client.create(SECRETS, {"metadata": metadata}, name)
        await client.delete(NAMESPACES, name)

        async def says_what_remains() -> bool:
            status = (await find(client, NAMESPACES, name))["status"]
            conditions = {each["type"]: each for each in status.get("conditions", [])}
            remaining = conditions.get("NamespaceFinalizersRemaining", {})
            return "example.com/keep in 1 resource" in remaining.get("message", "")

        await wait_for_condition(says_what_remains)
        namespace = await find(client, NAMESPACES, name)
        conditions = {each["type"]: each for each in namespace["status"]["conditions"]}
        summary = {
            kind: (each["status"], each["reason"], each["message"])
            for kind, each in conditions.items()
            # it may still count objects that were deleted meanwhile
            if kind != "NamespaceContentRemaining"
        }
        assert summary == {
            "NamespaceDeletionDiscoveryFailure": (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            "NamespaceDeletionGroupVersionParsingFailure": (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            "NamespaceDeletionContentFailure": (
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            "NamespaceFinalizersRemaining": (
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: "
                "example.com/keep in 1 resource instances",
            ),
        }
        assert conditions["NamespaceContentRemaining"]["status"] == "True"
        await client.patch(SECRETS, "kept", {"metadata": {"finalizers": None}}, name)
        await wait_deleted(client, NAMESPACES, name)


async def test_rejected_names_are_accepted_when_their_holder_is_deleted(api: Api) -> None:
    group = f"{api.namespace}.example.com"
    first = definition(group, "Widget", "widgets", shortNames=["wi"])
    second = definition(group, "Windmill", "windmills", shortNames=["wi"])
    async with api.client() as client:
        for each in (first, second):
            await client.create(DEFINITIONS, each)

        async def accepted(name: str) -> str:
            conditions = (await find(client, DEFINITIONS, name))["status"].get("conditions") or []
            return next((c["status"] for c in conditions if c["type"] == "NamesAccepted"), "")

        async def refused() -> bool:
            return await accepted(f"windmills.{group}") == "False"

        async def both_served() -> bool:
            return await accepted(f"windmills.{group}") == "True"

        await wait_for_condition(refused)
        await client.delete(DEFINITIONS, f"widgets.{group}")
        await wait_for_condition(both_served)
        windmills = unstructured_resource(group, "v1", "windmills", "Windmill", True)

        async def served() -> bool:
            try:
                return (await client.list(windmills)).items == []
            except NotFound:
                return False

        await wait_for_condition(served)
        await client.delete(DEFINITIONS, f"windmills.{group}")
        await wait_deleted(client, DEFINITIONS, f"windmills.{group}")
