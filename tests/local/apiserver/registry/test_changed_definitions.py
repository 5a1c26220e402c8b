"""Custom kinds whose definition changes while objects and watches of them exist."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import DEFINITIONS, definition, run_cluster

pytestmark = pytest.mark.looptime

WIDGETS = unstructured_resource("example.com", "v1", "widgets", "Widget", True)
NAME = "widgets.example.com"


def schema(**properties: Any) -> Any:
    spec = {"type": "object", "default": {}, "properties": properties}
    return {"type": "object", "properties": {"spec": spec}}


def with_schema(openapi: Any) -> Any:
    body = definition("example.com", "Widget", "widgets")
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = openapi
    return body


async def change_schema(client: Client, openapi: Any) -> None:
    versions = with_schema(openapi)["spec"]["versions"]
    await client.patch(DEFINITIONS, NAME, {"spec": {"versions": versions}})


async def test_objects_stored_before_a_new_default_are_served_with_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with run_cluster(data=data, controllers="") as cluster:
        client = cluster.client("test")
        await client.create(DEFINITIONS, with_schema(schema(size={"type": "integer"})))
        await client.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 3}}, "default")
        extended = schema(size={"type": "integer"}, color={"type": "string", "default": "red"})
        await change_schema(client, extended)
        labels = {"metadata": {"labels": {"touched": "yes"}}}
        await client.patch(DEFINITIONS, NAME, labels)
        served = await client.get(WIDGETS, "w", "default")
        assert served["spec"] == {"size": 3, "color": "red"}
        assert (await client.list(WIDGETS)).items[0]["spec"] == served["spec"]
    async with run_cluster(data=data, controllers="") as cluster:
        again = await cluster.client("test").get(WIDGETS, "w", "default")
        assert again["spec"] == {"size": 3, "color": "red"}, "also after a restart"


async def test_watch_ends_only_when_its_kind_changes_or_is_removed() -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(DEFINITIONS, with_schema(schema(size={"type": "integer"})))
        created = await client.create(WIDGETS, {"metadata": {"name": "w"}}, "default")
        version = created["metadata"]["resourceVersion"]
        async with client.watch(WIDGETS, resource_version=version) as stream:
            await client.patch(DEFINITIONS, NAME, {"metadata": {"labels": {"a": "b"}}})
            await client.patch(WIDGETS, "w", {"spec": {"size": 1}}, "default")
            batches = aiter(stream)
            assert len(await anext(batches)) == 1, "a label on the definition ends nothing"
            await change_schema(client, schema(size={"type": "integer", "minimum": 1}))
            assert [batch async for batch in batches] == []
