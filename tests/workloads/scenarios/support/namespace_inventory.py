"""All objects in a namespace, of every kind that a server knows."""

import json
from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.transport import Request
from tests.workloads.scenarios.support.scenario_api import ScenarioApi

_TRANSIENT_RESOURCES = ("events", "leases")


async def list_namespace_objects(api: ScenarioApi) -> list[str]:
    """All objects of the namespace of a test, as `kind/name`, but events."""
    found: set[str] = set()
    async with api.client() as client:
        for root in ("/api/v1", *await _list_group_paths(client)):
            for each in (await _get(client, root))["resources"]:
                plural = each["name"]
                if (
                    each["namespaced"]
                    and "list" in each["verbs"]
                    and plural not in _TRANSIENT_RESOURCES
                ):
                    objects = await _get(client, f"{root}/namespaces/{api.namespace}/{plural}")
                    found |= {f"{plural}/{item['metadata']['name']}" for item in objects["items"]}
    return sorted(found)


async def _list_group_paths(client: Client) -> list[str]:
    groups = (await _get(client, "/apis"))["groups"]
    return [f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups]


async def _get(client: Client, path: str) -> Any:
    return json.loads((await client.send(Request("GET", path))).body)
