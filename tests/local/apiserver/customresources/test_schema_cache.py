"""What is computed from a schema is shared by all clusters of a process, and by nothing else."""

from typing import Any

import pytest

from kilonova.kube import Client, Invalid
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.customresources.schema_cache import (
    SchemaCache,
    shared_custom_schema,
)
from kilonova.local.apiserver.customresources.version_validation import find_unrecognized_formats
from kilonova.local.apiserver.schema import cel
from tests.local.embedded_cluster import DEFINITIONS, definition, run_cluster

pytestmark = pytest.mark.looptime

THINGS = unstructured_resource("cached.example", "v1", "things", "Thing", True)


def thing_definition(rule: str) -> Any:
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    found = definition("cached.example", "Thing", "things")
    version = found["spec"]["versions"][0]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return found


def thing(name: str, size: int) -> Any:
    return {"metadata": {"name": name}, "spec": {"size": size}}


async def change_definition(client: Client, rule: str) -> None:
    patch = {"spec": {"versions": thing_definition(rule)["spec"]["versions"]}}
    await client.patch(DEFINITIONS, "things.cached.example", patch)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The schemas whose rules are compiled."""
    schemas: list[Any] = []
    original = cel.rule_set

    def compile_rules(schema: Any) -> Any:
        schemas.append(schema)
        return original(schema)

    monkeypatch.setattr(cel, "rule_set", compile_rules)
    return schemas


async def test_rules_are_compiled_once_for_all_clusters(compiled: list[Any]) -> None:
    for _ in range(2):
        async with run_cluster(controllers="") as cluster:
            client = cluster.client("test")
            await client.create(DEFINITIONS, thing_definition("self.size < 10"))
            await client.create(THINGS, thing("small", 9), "default")
            with pytest.raises(Invalid):
                await client.create(THINGS, thing("large", 10), "default")
    assert len(compiled) == 1


async def test_changed_definition_has_its_own_rules(compiled: list[Any]) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(DEFINITIONS, thing_definition("self.size < 20"))
        with pytest.raises(Invalid):
            await client.create(THINGS, thing("large", 25), "default")
        await change_definition(client, "self.size > 20")
        await client.create(THINGS, thing("large", 25), "default")
        with pytest.raises(Invalid):
            await client.create(THINGS, thing("small", 15), "default")
        await change_definition(client, "self.size < 20")
        await client.create(THINGS, thing("small", 15), "default")
        with pytest.raises(Invalid):
            await client.create(THINGS, thing("larger", 30), "default")
    assert len(compiled) == 2


def test_schemas_with_another_order_of_fields_are_not_shared() -> None:
    first: Any = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }
    second = {"type": "object", "properties": dict(reversed(first["properties"].items()))}
    assert shared_custom_schema(first) is shared_custom_schema({**first})
    assert shared_custom_schema(first) is not shared_custom_schema(second)
    assert list(shared_custom_schema(second).properties)[:2] == ["b", "a"]


def test_cache_forgets_the_schema_that_was_not_used_longest() -> None:
    computed: list[str] = []

    def compute(source: Any) -> str:
        computed.append(source["title"])
        return source["title"]

    cache = SchemaCache(compute, limit=2)
    assert [cache({"title": name}) for name in "abacab"] == list("abacab")
    assert computed == ["a", "b", "c", "b"]
    assert len(cache) == 2


def test_shared_schemas_are_limited() -> None:
    for index in range(40):
        shared_custom_schema({"type": "object", "maxProperties": index})
    assert len(shared_custom_schema) == 32


def test_unrecognized_formats_are_those_of_the_schema() -> None:
    def schema(format: str) -> Any:
        return {"type": "object", "properties": {"a": {"type": "string", "format": format}}}

    found = [find_unrecognized_formats(schema(each)) for each in ("date", "odd", "odd", "even")]
    assert found == [[], ["odd"], ["odd"], ["even"]]
