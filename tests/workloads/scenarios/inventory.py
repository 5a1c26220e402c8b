"""Everything that there is in a namespace, of every kind that a server knows."""

import asyncio

from tests.conftest import Api

_COMES_AND_GOES = ("events", "leases")


async def inventory(api: Api) -> list[str]:
    """All objects of the namespace of a test, as `kind/name`, but events."""
    return await asyncio.to_thread(_inventory, api)


def _inventory(api: Api) -> list[str]:
    found: set[str] = set()
    for root in ("/api/v1", *_group_roots(api)):
        status, listed = api.access.ask("GET", root)
        assert status == 200, (root, listed)
        for each in listed["resources"]:
            plural = each["name"]
            if each["namespaced"] and "list" in each["verbs"] and plural not in _COMES_AND_GOES:
                path = f"{root}/namespaces/{api.namespace}/{plural}"
                status, objects = api.access.ask("GET", path)
                assert status == 200, (path, objects)
                found |= {f"{plural}/{item['metadata']['name']}" for item in objects["items"]}
    return sorted(found)


def _group_roots(api: Api) -> list[str]:
    _, groups = api.access.ask("GET", "/apis")
    return [f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups["groups"]]
