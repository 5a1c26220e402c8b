"""What becomes of dependents, namespaces and kinds, on both servers."""

from typing import Any
from uuid import uuid4

import pytest

from kilonova.kube import Client, NotFound
from kilonova.kube.resource import plain
from kilonova.kube.verbs import Propagation
from tests.conftest import Api
from tests.local.embedded_cluster import (
    ACCOUNTS,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    SECRETS,
    definition,
    eventually,
    find,
    gone,
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
    await collector_knows_the_secrets(client, namespace)


async def collector_knows_the_secrets(client: Client, namespace: str) -> None:
    """Wait until the collector has seen all that there are: it takes one whose owner never was.

    A busy one may hear of an owner's deletion before it hears of the child.
    """
    never = {"metadata": {"name": "never", "uid": str(uuid4())}}
    metadata = {"name": "stray", "ownerReferences": [owned_by(never)]}
    await client.create(SECRETS, {"metadata": metadata}, namespace)
    await gone(client, SECRETS, "stray", namespace)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(api: Api, propagation: Propagation) -> None:
    async with api.client() as client:
        await family(client, api.namespace)
        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation=propagation)
        await gone(client, CONFIG_MAPS, "owner", api.namespace)
        await gone(client, SECRETS, "child", api.namespace)


async def test_a_foreground_deletion_waits(api: Api) -> None:
    async with api.client() as client:
        await family(client, api.namespace, "example.com/keep")

        async def child_is_going() -> bool:
            child = await find(client, SECRETS, "child", api.namespace)
            return "deletionTimestamp" in child["metadata"]

        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation="Foreground")
        await eventually(child_is_going)
        owner = await find(client, CONFIG_MAPS, "owner", api.namespace)
        assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
        await client.patch(SECRETS, "child", {"metadata": {"finalizers": None}}, api.namespace)
        await gone(client, CONFIG_MAPS, "owner", api.namespace)


async def test_orphans_stay(api: Api) -> None:
    async with api.client() as client:
        await family(client, api.namespace)
        await client.delete(CONFIG_MAPS, "owner", api.namespace, propagation="Orphan")
        await gone(client, CONFIG_MAPS, "owner", api.namespace)
        child = await find(client, SECRETS, "child", api.namespace)
        assert "ownerReferences" not in child["metadata"]


async def test_a_circle_goes_as_a_whole(api: Api) -> None:
    async with api.client() as client:
        first = await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, api.namespace)
        metadata = {"name": "b", "ownerReferences": [owned_by(first)]}
        second = await client.create(CONFIG_MAPS, {"metadata": metadata}, api.namespace)
        change = {"metadata": {"ownerReferences": [owned_by(second)]}}
        await client.patch(CONFIG_MAPS, "a", change, api.namespace)
        await client.delete(CONFIG_MAPS, "a", api.namespace, propagation="Foreground")
        await gone(client, CONFIG_MAPS, "a", api.namespace)
        await gone(client, CONFIG_MAPS, "b", api.namespace)


async def test_a_namespace_is_furnished_and_emptied(api: Api) -> None:
    async with api.client() as client:
        name = f"{api.namespace}-going"
        await client.create(NAMESPACES, {"metadata": {"name": name}})

        async def furnished() -> bool:
            account = await find(client, ACCOUNTS, "default", name)
            authority = await find(client, CONFIG_MAPS, "kube-root-ca.crt", name)
            return account is not None and authority is not None

        await eventually(furnished)
        metadata = {"name": "kept", "finalizers": ["example.com/keep"]}
        await client.create(SECRETS, {"metadata": metadata}, name)
        await client.delete(NAMESPACES, name)

        async def says_what_remains() -> bool:
            status = (await find(client, NAMESPACES, name))["status"]
            conditions = {each["type"]: each for each in status.get("conditions", [])}
            remaining = conditions.get("NamespaceFinalizersRemaining", {})
            return "example.com/keep in 1 resource" in remaining.get("message", "")

        await eventually(says_what_remains)
        namespace = await find(client, NAMESPACES, name)
        conditions = {each["type"]: each for each in namespace["status"]["conditions"]}
        summary = {
            kind: (each["status"], each["reason"], each["message"])
            for kind, each in conditions.items()
            if kind != "NamespaceContentRemaining"  # it may still count what went meanwhile
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
        await gone(client, NAMESPACES, name)


async def test_refused_names_are_accepted_when_their_holder_goes(api: Api) -> None:
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

        await eventually(refused)
        await client.delete(DEFINITIONS, f"widgets.{group}")
        await eventually(both_served)
        windmills = plain(group, "v1", "windmills", "Windmill", True)

        async def served() -> bool:
            try:
                return (await client.list(windmills)).items == []
            except NotFound:
                return False

        await eventually(served)
        await client.delete(DEFINITIONS, f"windmills.{group}")
        await gone(client, DEFINITIONS, f"windmills.{group}")
