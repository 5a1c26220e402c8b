"""Definitions with very many rules: other requests are served while they are compiled."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from kilonova.local.apiserver.schema.cel import rule_validation
from kilonova.local.cluster import EmbeddedCluster
from tests.local.apiserver.registry.api_requests import read
from tests.local.embedded_cluster import run_cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/many.example/v1/namespaces/default/things"
COUNT = 400


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with run_cluster(controllers="") as cluster:
        yield cluster


def schema(count: int, first: int = 0) -> Any:
    fields = {
        f"field{number}": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": f"self >= {first + number}"}],
        }
        for number in range(count)
    }
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def definition(versions: int = 1, count: int = COUNT) -> Any:
    return {
        "metadata": {"name": "things.many.example"},
        "spec": {
            "group": "many.example",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {
                    "name": f"v{number + 1}",
                    "served": True,
                    "storage": number == 0,
                    "schema": {"openAPIV3Schema": schema(count, number * count)},
                }
                for number in range(versions)
            ],
        },
    }


def thing(**spec: int) -> Any:
    return {
        "apiVersion": "many.example/v1",
        "kind": "Thing",
        "metadata": {"name": "thing"},
        "spec": spec,
    }


async def count_requests_served_meanwhile(
    cluster: EmbeddedCluster, request: Awaitable[Any]
) -> tuple[Any, int]:
    """The response, and the number of another client's requests served before it."""
    asked = asyncio.ensure_future(request)
    count = 0
    await asyncio.sleep(0)  # it starts first
    while not asked.done():
        await read(cluster, "/api/v1/namespaces/default")
        count += 1
        await asyncio.sleep(0)
    return await asked, count


async def test_other_requests_are_served_while_rules_compile(cluster: EmbeddedCluster) -> None:
    result, count = await count_requests_served_meanwhile(
        cluster, read(cluster, DEFINITIONS, "POST", definition())
    )
    assert result["metadata"]["name"] == "things.many.example"
    assert count > 10
    result, count = await count_requests_served_meanwhile(
        cluster, read(cluster, THINGS, "POST", thing(field3=3, field4=1))
    )
    assert result["message"].endswith("spec.field4: Invalid value: 1: failed rule: self >= 4")
    assert count > 10
    assert "code" not in await read(cluster, THINGS, "POST", thing(field3=3, field4=4))


async def test_invalid_rule_among_many_is_reported(cluster: EmbeddedCluster) -> None:
    wrong = definition()
    fields = wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields["properties"]["field7"]["x-kubernetes-validations"][0]["rule"] = "self >= nothing"
    for _ in range(2):
        refused = await read(cluster, DEFINITIONS, "POST", wrong)
        assert refused["code"] == 422
        assert "undeclared reference to 'nothing'" in refused["message"]
    fields["properties"]["field7"]["x-kubernetes-validations"][0]["rule"] = "self >= 7"
    assert "code" not in await read(cluster, DEFINITIONS, "POST", wrong)


@pytest.fixture
def compiling_threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread on which each rule is compiled from now on."""
    threads: list[threading.Thread] = []
    compile_rule = rule_validation.compile_rule

    def seen(*given: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return compile_rule(*given, **options)

    monkeypatch.setattr(rule_validation, "compile_rule", seen)
    return threads


@pytest.mark.parametrize(
    ("versions", "count"), [(9, 64), (20, 30)], ids=["many versions", "few rules in each"]
)
async def test_rules_of_all_versions_compile_once_and_off_the_event_loop(
    cluster: EmbeddedCluster, versions: int, count: int, compiling_threads: list[threading.Thread]
) -> None:
    result = await read(cluster, DEFINITIONS, "POST", definition(versions, count))
    assert result["metadata"]["name"] == "things.many.example"
    assert len(compiling_threads) == versions * count
    assert threading.current_thread() not in compiling_threads


async def test_status_update_after_restart_compiles_off_the_event_loop(
    cluster: EmbeddedCluster,
    compiling_threads: list[threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = await read(cluster, DEFINITIONS, "POST", definition(count=70))
    monkeypatch.setattr(
        "kilonova.local.apiserver.customresources.definition_validation._cached_errors", {}
    )
    result["status"]["conditions"].append({"type": "Other", "status": "True"})
    url = f"{DEFINITIONS}/things.many.example/status"
    entry = await read(cluster, url, "PUT", result)
    assert entry["status"]["conditions"][-1]["type"] == "Other"
    assert threading.current_thread() not in compiling_threads
