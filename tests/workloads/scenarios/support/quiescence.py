"""When a scenario is quiescent: all components have seen all objects, no controller is at work, and
nothing changes.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from kilonova.kube import Client, Controller, Key, Reflector, Resource
from tests.local.embedded_cluster import NODES
from tests.workloads.workload_cluster import CLIQUES, GANGS, PODS, SCALING_GROUPS, SETS

KINDS = (SETS, CLIQUES, SCALING_GROUPS, GANGS, PODS, NODES)
QUIET_SECONDS = 0.2
"""Seconds without a change, from when everyone has seen everything."""

Versions: TypeAlias = dict[str, dict[Key, str]]
"""Of objects by their keys, by the names of their kinds."""


async def wait_until_quiescent(
    client: Client,
    namespace: str,
    caches: Iterable[Reflector[Any]],
    controllers: Collection[Controller],
) -> None:
    """Wait until `caches` of the components show the stored state and `controllers` are idle, and
    the state stays unchanged for a moment.

    On a slow machine caches lag and requests of controllers take longer than that moment: these
    are waited for.
    """
    watching = [each for each in caches if each.resource.full_name in _RESOURCE_NAMES]
    observed: Versions | None = None
    loop = asyncio.get_running_loop()
    started = loop.time()
    while observed != (now := await _list_versions(client, namespace)):
        idle = all(each.queue.is_idle for each in controllers)
        current = all(_is_cache_current(each, namespace, now) for each in watching)
        observed = now if idle and current else None
        # Every look lists all kinds: a lagging component should not have to wait for its CPU time.
        look_again = max(0.05, (loop.time() - started) / 10)
        await asyncio.sleep(look_again if observed is None else QUIET_SECONDS)


_RESOURCE_NAMES = {each.full_name for each in KINDS}


async def _list_versions(client: Client, namespace: str) -> Versions:
    async def list_kind(kind: Resource[Any]) -> dict[Key, str]:
        found = await client.list(kind, namespace if kind.namespaced else None)
        message = [each["metadata"] for each in found.items]
        return {(x.get("namespace", ""), x["name"]): x["resourceVersion"] for x in message}

    found = await asyncio.gather(*map(list_kind, KINDS))
    return {kind.full_name: versions for kind, versions in zip(KINDS, found, strict=True)}


def _is_cache_current(cache: Reflector[Any], namespace: str, versions: Versions) -> bool:
    store, where = cache.store, namespace if cache.resource.namespaced else ""
    shown = {store.key_of(each): store.version_of(each) for each in store.objects()}
    here = {key: version for key, version in shown.items() if key[0] == where}
    return here == versions[cache.resource.full_name]
