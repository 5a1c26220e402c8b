"""Definitions with very many rules: others are answered while they are compiled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from kilonova.local.cluster import Cluster
from tests.local.embedded_cluster import running
from tests.local.registry.conversation import read

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/many.example/v1/namespaces/default/things"
COUNT = 400


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running(controllers="") as cluster:
        yield cluster


def definition(rule: str = "self >= {}") -> Any:
    fields = {
        f"field{number}": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": rule.format(number)}],
        }
        for number in range(COUNT)
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": "things.many.example"},
        "spec": {
            "group": "many.example",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def thing(**spec: int) -> Any:
    return {
        "apiVersion": "many.example/v1",
        "kind": "Thing",
        "metadata": {"name": "thing"},
        "spec": spec,
    }


async def answered_meanwhile(cluster: Cluster, request: Awaitable[Any]) -> tuple[Any, int]:
    """The answer, and how many requests of another client were answered before it."""
    asked = asyncio.ensure_future(request)
    count = 0
    await asyncio.sleep(0)  # it begins first
    while not asked.done():
        await read(cluster, "/api/v1/namespaces/default")
        count += 1
        await asyncio.sleep(0)
    return await asked, count


async def test_others_are_answered_while_rules_are_compiled(cluster: Cluster) -> None:
    made, count = await answered_meanwhile(
        cluster, read(cluster, DEFINITIONS, "POST", definition())
    )
    assert made["metadata"]["name"] == "things.many.example"
    assert count > 10
    made, count = await answered_meanwhile(
        cluster, read(cluster, THINGS, "POST", thing(field3=3, field4=1))
    )
    assert made["message"].endswith("spec.field4: Invalid value: 1: failed rule: self >= 4")
    assert count > 10
    assert "code" not in await read(cluster, THINGS, "POST", thing(field3=3, field4=4))


async def test_a_wrong_rule_among_many_is_told(cluster: Cluster) -> None:
    wrong = definition()
    fields = wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields["properties"]["field7"]["x-kubernetes-validations"][0]["rule"] = "self >= nothing"
    for _ in range(2):
        refused = await read(cluster, DEFINITIONS, "POST", wrong)
        assert refused["code"] == 422
        assert "undeclared reference to 'nothing'" in refused["message"]
    fields["properties"]["field7"]["x-kubernetes-validations"][0]["rule"] = "self >= 7"
    assert "code" not in await read(cluster, DEFINITIONS, "POST", wrong)
