"""Definitions that go, and definitions that wait for a name, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.resource import plain
from tests.local.embedded_cluster import (
    DEFINITIONS,
    definition,
    eventually,
    find,
    gone,
    running,
    settle,
)

pytestmark = pytest.mark.looptime

WIDGETS = plain("example.com", "v1", "widgets", "Widget", True)
NAME = "widgets.example.com"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running() as cluster:
        yield cluster.client("test")


async def condition(client: Client, name: str, kind: str) -> Any:
    conditions = (await find(client, DEFINITIONS, name))["status"]["conditions"]
    return next((each for each in conditions if each["type"] == kind), None)


async def test_a_deleted_definition_takes_its_objects_along(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    for number in range(3):
        await client.create(WIDGETS, {"metadata": {"name": f"w{number}"}}, "default")
    await client.delete(DEFINITIONS, NAME)
    await gone(client, DEFINITIONS, NAME)
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    assert (await client.list(WIDGETS)).items == []


async def test_a_definition_waits_for_objects_with_finalizers(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    metadata = {"name": "holds", "finalizers": ["example.com/x"]}
    await client.create(WIDGETS, {"metadata": metadata}, "default")
    await client.delete(DEFINITIONS, NAME)
    await settle()
    assert (await condition(client, NAME, "Terminating"))["status"] == "True"
    assert (await find(client, WIDGETS, "holds"))["metadata"]["deletionTimestamp"]
    await client.patch(WIDGETS, "holds", {"metadata": {"finalizers": None}}, "default")
    await gone(client, DEFINITIONS, NAME)


async def test_a_definition_that_serves_no_version_goes(client: Client) -> None:
    body = definition("example.com", "Widget", "widgets")
    body["spec"]["versions"][0]["served"] = False
    await client.create(DEFINITIONS, body)
    await client.delete(DEFINITIONS, NAME)
    await gone(client, DEFINITIONS, NAME)


async def test_a_definition_that_was_never_accepted_goes(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    await client.create(DEFINITIONS, definition("example.com", "Widget", "gadgets"))
    assert (await condition(client, "gadgets.example.com", "Established"))["status"] == "False"
    await client.delete(DEFINITIONS, "gadgets.example.com")
    await gone(client, DEFINITIONS, "gadgets.example.com")
    assert (await condition(client, NAME, "Established"))["status"] == "True"


async def test_a_name_that_becomes_free_is_given_to_one_who_waits(client: Client) -> None:
    await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
    for plural in ("gadgets", "gizmos"):
        await client.create(DEFINITIONS, definition("example.com", "Widget", plural))
    await client.delete(DEFINITIONS, NAME)
    await gone(client, DEFINITIONS, NAME)
    waiting = ("gadgets.example.com", "gizmos.example.com")

    async def one_is_established() -> bool:
        return "True" in [(await condition(client, n, "Established"))["status"] for n in waiting]

    await eventually(one_is_established)
    await settle()
    states = sorted([(await condition(client, n, "Established"))["status"] for n in waiting])
    assert states == ["False", "True"]


async def test_a_name_that_its_holder_gives_up_is_given_on(client: Client) -> None:
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

    await eventually(accepted)
    windmills = plain("example.com", "v1", "windmills", "Windmill", True)
    assert (await client.list(windmills)).items == []
