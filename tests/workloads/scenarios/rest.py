"""When a scenario is at rest: whoever acts there has seen all that there is, and lets it be."""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeAlias

from kilonova.kube import Client, Key, Reflector, Resource
from tests.local.embedded_cluster import NODES
from tests.workloads.ground import CLIQUES, GANGS, GROUPS, PODS, SETS

KINDS = (SETS, CLIQUES, GROUPS, GANGS, PODS, NODES)
QUIET = 0.2
"""Seconds without a change, from when everyone has seen everything."""

Versions: TypeAlias = dict[str, dict[Key, str]]
"""Of objects by their keys, by the names of their kinds."""


async def until_at_rest(client: Client, namespace: str, caches: Iterable[Reflector[Any]]) -> None:
    """Wait until `caches`, of those who act, show what there is, and it stays so for a moment.

    A slow machine makes a cache late, which is waited for; it does not make the rest look quiet.
    """
    watching = [each for each in caches if each.resource.full_name in _NAMES]
    seen: Versions | None = None
    while seen != (now := await _versions(client, namespace)):
        seen = now if all(_shows(each, namespace, now) for each in watching) else None
        await asyncio.sleep(0.02 if seen is None else QUIET)


_NAMES = {each.full_name for each in KINDS}


async def _versions(client: Client, namespace: str) -> Versions:
    async def of(kind: Resource[Any]) -> dict[Key, str]:
        found = await client.list(kind, namespace if kind.namespaced else None)
        told = [each["metadata"] for each in found.items]
        return {(x.get("namespace", ""), x["name"]): x["resourceVersion"] for x in told}

    found = await asyncio.gather(*map(of, KINDS))
    return {kind.full_name: versions for kind, versions in zip(KINDS, found, strict=True)}


def _shows(cache: Reflector[Any], namespace: str, versions: Versions) -> bool:
    store, where = cache.store, namespace if cache.resource.namespaced else ""
    shown = {store.key_of(each): store.version_of(each) for each in store.objects()}
    here = {key: version for key, version in shown.items() if key[0] == where}
    return here == versions[cache.resource.full_name]
