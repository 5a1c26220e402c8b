"""A stage for scenarios on either server: nodes, an operator, a scheduler of gangs, a person.

Nodes are small: each has room for one pod of 80Mi. They are all cordoned at first, so that a
scenario says how many may be used. Everything of a scenario is in one namespace of its own, and
its nodes begin with that namespace's name.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kilonova.api.crds import definitions
from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, Conflict, NotFound, Part, Reflector, Resource
from kilonova.kube.resource import plain
from kilonova.local.nodes import Fleet, SimulatedNodes
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.nodes.sim import PODS as SIM_PODS
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import Settings
from tests.conftest import Api
from tests.local.embedded_cluster import DEFINITIONS, NODES, eventually
from tests.workloads.emptiness import EmptyFields
from tests.workloads.ground import (
    CHILDREN,
    CLIQUES,
    PODS,
    SETS,
    parts_running,
)
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.gangbinder import GangBinder
from tests.workloads.scenarios.rest import until_at_rest

PATIENCE = 60.0
SETTINGS = Settings(status_pace=0.02, schedulers=("kilonova-scheduler", "kai-scheduler"))
"""Pods that name no scheduler are the gang binder's."""


@dataclass
class World:
    """Where a scenario takes place, and what a person does there."""

    client: Client
    namespace: str
    settings: Settings
    nodes: list[str]
    others: list[Part]
    """What runs here beside the operator."""
    _operator: AsyncExitStack
    _own: list[Part] = field(default_factory=list[Part])
    binder: GangBinder | None = None

    async def free(self, count: int) -> None:
        """Let pods on to so many nodes in all, the first ones."""
        known = {each["metadata"]["name"]: each for each in (await self.client.list(NODES)).items}
        wanted = {node: number >= count for number, node in enumerate(self.nodes)}
        await asyncio.gather(
            *(
                self.cordon(node, closed)
                for node, closed in wanted.items()
                if known[node]["spec"].get("unschedulable", False) != closed
            )
        )
        binder = self.binder
        if binder is not None:

            async def seen() -> bool:
                return all(binder.may_use(node) != closed for node, closed in wanted.items())

            await self.until(seen)

    async def cordon(self, node: str, closed: bool = True) -> None:
        """As `kubectl cordon` and `uncordon` do."""
        await self.client.patch(NODES, node, {"spec": {"unschedulable": closed}})

    async def apply(self, manifest: str | JsonObject, **spec: Any) -> JsonObject:
        """Apply a set: one of the manifests, or an object; `spec` lays fields over its spec."""
        body = set_of(manifest) if isinstance(manifest, str) else manifest
        body = {**body, "spec": {**body["spec"], **spec}}
        body["metadata"] = {**body["metadata"], "namespace": self.namespace}
        name = body["metadata"]["name"]
        return await self.client.apply(
            SETS, name, defaulted(body), self.namespace, manager="person"
        )

    async def scale(self, resource: Resource[Any], name: str, replicas: int) -> None:
        """As `kubectl scale` does."""
        await self.client.set_scale(resource, name, self.namespace, replicas)

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            return await self.client.get(resource, name, self._where(resource))
        except NotFound:
            return None

    async def all(self, resource: Resource[Any], labels: str = "") -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, self.namespace, labels=labels)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def pods(self, clique: str = "") -> list[Any]:
        """Pods that are not ending, of one clique or all."""
        labels = f"{names.POD_CLIQUE}={clique}" if clique else ""
        found = await self.all(PODS, labels)
        return [each for each in found if not each["metadata"].get("deletionTimestamp")]

    async def running(self, clique: str = "") -> list[Any]:
        """Pods that are ready."""
        return [each for each in await self.pods(clique) if is_ready(each)]

    async def until(self, holds: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> None:
        """Wait until something holds."""
        await eventually(holds, within=within, every=0.05)

    async def until_running(self, count: int, clique: str = "") -> None:
        """Wait until exactly so many pods are there and ready."""

        async def so() -> bool:
            pods = await self.pods(clique)
            return len(pods) == count and all(map(is_ready, pods))

        await self.until(so)

    async def until_settled(self) -> None:
        """Wait until whoever acts here has seen all that there is, and then lets it be."""
        caches = [each for each in (*self.others, *self._own) if isinstance(each, Reflector)]
        async with asyncio.timeout(PATIENCE):
            await until_at_rest(self.client, self.namespace, caches)

    async def left(self) -> list[str]:
        """All that there is of the operator's kinds."""
        return [
            f"{each.plural}/{found['metadata']['name']}"
            for each in (SETS, *CHILDREN)
            for found in await self.all(each)
        ]

    async def stop_operator(self) -> None:
        """As a crash of it, or an upgrade, begins."""
        await self._operator.aclose()

    async def start_operator(self) -> None:
        """A new one goes on with what it finds."""
        operator = build_operator(self.client, self.settings)
        self._own = operator.parts
        await self._operator.enter_async_context(parts_running(operator.parts, operator.leading))

    def _where(self, resource: Resource[Any]) -> str | None:
        return self.namespace if resource.namespaced else None


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def world(
    api: Api,
    *,
    nodes: int = 30,
    free: int = 0,
    settings: Settings = SETTINGS,
    schedules: bool = True,
    group: Sequence[NodeGroup] = (),
) -> AsyncGenerator[World]:
    """A world on one of the servers; what it made is gone afterwards."""
    groups = group or [
        NodeGroup(f"{api.namespace}-n", nodes, memory="150Mi", start="10ms", stop="10ms")
    ]
    fleet = Fleet(nodes=tuple(groups), heartbeat="5s")
    async with api.client() as client, AsyncExitStack() as stack:
        await _install(client)
        simulated_pods = Reflector(client, SIM_PODS)
        simulated = SimulatedNodes(client, fleet, lambda: datetime.now(UTC), simulated_pods)
        await stack.enter_async_context(parts_running([simulated_pods, simulated], []))
        await simulated.wait_registered()
        known = [
            each["metadata"]["name"]
            for each in (await client.list(NODES)).items
            if each["metadata"]["name"].startswith(f"{api.namespace}-")
        ]
        others: list[Part] = [simulated_pods]
        made = World(client, api.namespace, settings, _in_order(known), others, AsyncExitStack())
        await made.free(free)
        if schedules:
            binder = GangBinder(client, prefix=f"{api.namespace}-")
            await stack.enter_async_context(parts_running(binder.parts, []))
            others += binder.parts
            made.binder = binder
        empties = EmptyFields(client, api.namespace)
        await stack.enter_async_context(parts_running(empties.reflectors, []))
        await made.start_operator()
        try:
            yield made
        finally:
            await _clear(made)
            await made.stop_operator()
            await asyncio.gather(*(client.delete(NODES, node) for node in made.nodes))
        assert not empties.found, sorted(empties.found)


async def _install(client: Client) -> None:
    """Define our kinds, on a server that does not know them yet."""
    kinds = [_defined(each) for each in definitions()]
    if all(await asyncio.gather(*(_is_served(client, each) for each in kinds))):
        return
    for each in definitions():
        await client.apply(
            DEFINITIONS, each["metadata"]["name"], each, manager="kilonova-scheduler"
        )
    for each in kinds:
        await eventually(lambda each=each: _is_served(client, each))


def _defined(definition: JsonObject) -> Resource[Any]:
    spec = definition["spec"]
    called = spec["names"]
    (version,) = [each["name"] for each in spec["versions"] if each["storage"]]
    namespaced = spec["scope"] == "Namespaced"
    return plain(spec["group"], version, called["plural"], called["kind"], namespaced)


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource)
    except ApiStatusError as error:
        if error.code not in (404, 429):  # a genuine server asks for patience with a new kind
            raise
        return False
    return True


async def _clear(world: World) -> None:
    for each in await world.all(SETS):
        await world.client.delete(SETS, each["metadata"]["name"], world.namespace)

    async def gone() -> bool:
        return not await world.all(PODS) and not await world.all(CLIQUES)

    try:
        await world.until(gone)
    except Conflict:
        return


def _in_order(nodes: list[str]) -> list[str]:
    return sorted(nodes, key=lambda name: (len(name), name))
