"""What can be done from the page, if the console was started with it.

Each action says in words what came of it. What the API server refuses is passed on in its words.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, assert_never

import msgspec

from kilonova.api.times import rfc3339
from kilonova.console.objects import PODS, Pod
from kilonova.console.replies import Refused
from kilonova.console.tables import Table
from kilonova.kube import ApiStatusError, Client, NotFound, TooManyRequests

_EVICTED_AT_ONCE = 8
_MOST_REPLICAS = 2**31 - 1
_NODES = frozenset({"nodes"})
_JOBS = frozenset({"jobs"})
_REPLICATED = frozenset({"deployments", "statefulsets"})
_TABLES = {
    "scale": frozenset({"sets", "cliques"}) | _REPLICATED,
    "restart": _REPLICATED,
    "suspend": _JOBS,
    "resume": _JOBS,
    "cordon": _NODES,
    "uncordon": _NODES,
    "drain": _NODES,
    "delete": frozenset({"sets", "cliques", "pods", "gangs"}) | _REPLICATED | _JOBS,
}


class Action(msgspec.Struct, frozen=True):
    """What somebody wants done to the object of a row."""

    act: Literal["scale", "restart", "suspend", "resume", "cordon", "uncordon", "drain", "delete"]
    table: str
    id: str
    replicas: int | None = None


async def perform(client: Client, tables: Mapping[str, Table[Any]], action: Action) -> str:
    """Do it, and say what came of it; `Refused` if it makes no sense."""
    allowed = _TABLES[action.act]
    table = tables.get(action.table)
    if table is None or action.table not in allowed:
        *most, last = sorted(allowed)
        only = f"{', '.join(most)} and {last}" if most else last
        raise Refused(400, f"cannot {action.act} {action.table}: only {only}")
    try:
        namespace, name = table.key_of(action.id)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    what = f"{table.resource.kind} {action.id}"
    match action.act:
        case "scale":
            replicas = action.replicas
            if replicas is None or not 0 <= replicas <= _MOST_REPLICAS:
                raise Refused(400, f"replicas is {replicas}: want a number, 0 or more")
            await client.set_scale(table.resource, name, namespace, replicas)
            return f"{what} is asked for {replicas} replicas"
        case "restart":
            # As `kubectl rollout restart` does it: a template that differs is rolled out.
            stamp = {"kubectl.kubernetes.io/restartedAt": rfc3339(datetime.now(UTC))}
            template = {"metadata": {"annotations": stamp}}
            await client.patch(table.resource, name, {"spec": {"template": template}}, namespace)
            return f"{what} replaces its pods"
        case "suspend" | "resume":
            suspended = action.act == "suspend"
            await client.patch(table.resource, name, {"spec": {"suspend": suspended}}, namespace)
            return f"{what} {'ends its pods and waits' if suspended else 'goes on'}"
        case "cordon" | "uncordon":
            await _cordon(client, table, name, action.act == "cordon")
            return f"{what} takes {'no new pods' if action.act == 'cordon' else 'pods again'}"
        case "drain":
            await _cordon(client, table, name, True)
            return f"{what} takes no new pods; {await _evict_all(client, name)}"
        case "delete":
            await client.delete(table.resource, name, namespace, propagation="Background")
            return f"{what} is being deleted"
        case _:
            assert_never(action.act)


async def _cordon(client: Client, table: Table[Any], node: str, wanted: bool) -> None:
    await client.patch(table.resource, node, {"spec": {"unschedulable": wanted or None}})


async def _evict_all(client: Client, node: str) -> str:
    """Ask all pods of a node to go, once; what is left is said with who holds it back."""
    listing = await client.list(PODS, fields=f"spec.nodeName={node}")
    pods = [pod for pod in listing.items if _goes(pod)]
    few = asyncio.Semaphore(_EVICTED_AT_ONCE)

    async def evict(pod: Pod) -> str:
        async with few:
            return await _evict(client, pod)

    held = [why for why in await asyncio.gather(*map(evict, pods)) if why]
    text = f"{_counted(len(pods) - len(held))} told to go"
    if not held:
        return text
    return f"{text}, {_counted(len(held))} held back: {'; '.join(held)}"


def _goes(pod: Pod) -> bool:
    """Pods of DaemonSets would come back at once, and mirror pods only show what a file says."""
    owner = pod.metadata.controller
    return not pod.metadata.annotations.mirror and (owner is None or owner.kind != "DaemonSet")


async def _evict(client: Client, pod: Pod) -> str:
    """Why it stays; empty if it goes."""
    meta = pod.metadata
    try:
        await client.evict(meta.name, meta.namespace, uid=meta.uid)
    except NotFound:
        return ""
    except TooManyRequests as error:
        said = (str(cause.get("message", "")) for cause in error.causes)
        return f"{meta.id}: {next(filter(None, said), error.message)}"
    except ApiStatusError as error:
        return f"{meta.id}: {error.message}"
    return ""


def _counted(pods: int) -> str:
    return "1 pod is" if pods == 1 else f"{pods} pods are"
