"""Deleted definitions, and definitions that wait for a name, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import (
    DEFINITIONS,
    advance_time,
    definition,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

WIDGETS = unstructured_resource("example.com", "v1", "widgets", "Widget", True)
NAME = "widgets.example.com"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with run_cluster() as cluster:
        yield cluster.client("test")


async def condition(client: Client, name: str, kind: str) -> Any:
    conditions = (await find(client, DEFINITIONS, name))["status"]["conditions"]
    return next((each for each in conditions if each["type"] == kind), None)


async def test_objects_are_deleted_with_their_definition(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    for number in range(3):
        await client.create(WIDGETS, {"metadata": {"name": f"w{number}"}}, "default")
    await client.delete(DEFINITIONS, NAME)
    await wait_deleted(client, DEFINITIONS, NAME)
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    assert (await client.list(WIDGETS)).items == []


async def test_a_definition_waits_for_objects_with_finalizers(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    metadata = {"name": "holds", "finalizers": ["example.com/x"]}
    await client.create(WIDGETS, {"metadata": metadata}, "default")
    await client.delete(DEFINITIONS, NAME)
    await advance_time()
    assert (await condition(client, NAME, "Terminating"))["status"] == "True"
    assert (await find(client, WIDGETS, "holds"))["metadata"]["deletionTimestamp"]
    await client.patch(WIDGETS, "holds", {"metadata": {"finalizers": None}}, "default")
    await wait_deleted(client, DEFINITIONS, NAME)


async def test_definition_without_served_version_is_deleted(client: Client) -> None:
    body = definition("example.com", "Widget", "widgets")
    body["spec"]["versions"][0]["served"] = False
    await client.create(DEFINITIONS, body)
    await client.delete(DEFINITIONS, NAME)
    await wait_deleted(client, DEFINITIONS, NAME)


async def test_definition_that_was_never_accepted_is_deleted(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    await client.create(DEFINITIONS, definition("example.com", "Widget", "gadgets"))
    assert (await condition(client, "gadgets.example.com", "Established"))["status"] == "False"
    await client.delete(DEFINITIONS, "gadgets.example.com")
    await wait_deleted(client, DEFINITIONS, "gadgets.example.com")
    assert (await condition(client, NAME, "Established"))["status"] == "True"


async def test_freed_name_is_accepted_for_a_waiting_definition(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    for plural in ("gadgets", "gizmos"):
        await client.create(DEFINITIONS, definition("example.com", "Widget", plural))
    await client.delete(DEFINITIONS, NAME)
    await wait_deleted(client, DEFINITIONS, NAME)
    waiting = ("gadgets.example.com", "gizmos.example.com")

    async def one_is_established() -> bool:
        return "True" in [(await condition(client, n, "Established"))["status"] for n in waiting]

    await wait_for_condition(one_is_established)
    await advance_time()
    states = sorted([(await condition(client, n, "Established"))["status"] for n in waiting])
    assert states == ["False", "True"]


async def test_name_that_its_holder_drops_is_accepted_for_another(client: Client) -> None:
    holder = definition("example.com", "Widget", "widgets", shortNames=["w"])
    await client.create(DEFINITIONS, holder)
    await client.create(
        DEFINITIONS, definition("example.com", "Windmill", "windmills", shortNames=["w"])
    )
    refused = await condition(client, "windmills.example.com", "NamesAccepted")
    assert (refused["status"], refused["reason"]) == ("False", "ShortNamesConflict")
    await client.patch(DEFINITIONS, NAME, {"spec": {"names": {"shortNames": None}}})

    async def accepted() -> bool:
        return (await condition(client, "windmills.example.com", "NamesAccepted"))[
            "status"
        ] == "True"

    await wait_for_condition(accepted)
    windmills = unstructured_resource("example.com", "v1", "windmills", "Windmill", True)
    assert (await client.list(windmills)).items == []
