"""A cluster for scenarios on either server: nodes, an operator, a gang scheduler, a user.

Nodes are small: each has capacity for one pod of 80Mi. They are all cordoned at first, and a
scenario uncordons as many as it needs. Every scenario has its own namespace, and the names of its
nodes begin with the namespace's name.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import (
    ApiStatusError,
    Client,
    Conflict,
    Controller,
    NotFound,
    Reflector,
    Resource,
    Runnable,
)
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import NodeGroup
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import DEFINITIONS, NODES, wait_for_condition
from tests.workloads.empty_fields import EmptyFieldWatcher
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.gang_binder import GangBinder
from tests.workloads.scenarios.support.quiescence import wait_until_quiescent
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.workload_cluster import CHILDREN, CLIQUES, PODS, SETS, run_runnables

TIMEOUT_SECONDS = 60.0
SETTINGS = OperatorSettings(
    status_write_interval=0.02, schedulers=("kilonova-scheduler", "kai-scheduler")
)
"""Pods that name no scheduler are the gang binder's."""


@dataclass
class ScenarioCluster:
    """A cluster, and the actions of a user."""

    client: Client
    namespace: str
    settings: OperatorSettings
    nodes: list[str]
    other_runnables: list[Runnable]
    """What runs here beside the operator."""
    _operator: AsyncExitStack
    _operator_runnables: list[Runnable] = field(default_factory=list[Runnable])
    binder: GangBinder | None = None

    async def uncordon_nodes(self, count: int) -> None:
        """Uncordon so many nodes in total, the first ones."""
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

            async def observed() -> bool:
                return all(binder.is_node_usable(node) != closed for node, closed in wanted.items())

            await self.wait_until(observed)

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        """As `kubectl cordon` and `uncordon` do."""
        await self.client.patch(NODES, node, {"spec": {"unschedulable": unschedulable}})

    async def apply(self, manifest: str | JsonObject, **spec: Any) -> JsonObject:
        """Apply a set: one of the manifests, or an object; `spec` lays fields over its spec."""
        body = load_set(manifest) if isinstance(manifest, str) else manifest
        body = {**body, "spec": {**body["spec"], **spec}}
        body["metadata"] = {**body["metadata"], "namespace": self.namespace}
        name = body["metadata"]["name"]
        return await self.client.apply(
            SETS, name, apply_defaults(body), self.namespace, field_manager="person"
        )

    async def scale(self, resource: Resource[Any], name: str, replicas: int) -> None:
        """As `kubectl scale` does."""
        await self.client.set_scale(resource, name, self.namespace, replicas)

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            return await self.client.get(resource, name, self._get_namespace(resource))
        except NotFound:
            return None

    async def list_objects(self, resource: Resource[Any], labels: str = "") -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, self.namespace, label_selector=labels)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def list_pods(self, clique: str = "") -> list[Any]:
        """Pods that are not ending, of one clique or all."""
        labels = f"{names.POD_CLIQUE}={clique}" if clique else ""
        found = await self.list_objects(PODS, labels)
        return [each for each in found if not each["metadata"].get("deletionTimestamp")]

    async def list_ready_pods(self, clique: str = "") -> list[Any]:
        """Pods that are ready."""
        return [each for each in await self.list_pods(clique) if is_ready(each)]

    async def wait_until(
        self, condition: Callable[[], Awaitable[bool]], timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """Wait until something holds."""
        await wait_for_condition(condition, within=timeout, every=0.05)

    async def wait_until_running(self, count: int, clique: str = "") -> None:
        """Wait until exactly so many pods are there and ready."""

        async def condition() -> bool:
            pods = await self.list_pods(clique)
            return len(pods) == count and all(map(is_ready, pods))

        await self.wait_until(condition)

    async def wait_until_settled(self) -> None:
        """Wait until all components have seen all objects, none is at work and nothing changes."""
        runnables = (*self.other_runnables, *self._operator_runnables)
        caches = [each for each in runnables if isinstance(each, Reflector)]
        controllers = [each for each in runnables if isinstance(each, Controller)]
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await wait_until_quiescent(self.client, self.namespace, caches, controllers)

    async def list_remaining_objects(self) -> list[str]:
        """All that there is of the operator's kinds."""
        return [
            f"{each.plural}/{found['metadata']['name']}"
            for each in (SETS, *CHILDREN)
            for found in await self.list_objects(each)
        ]

    async def stop_operator(self) -> None:
        """Stop the operator, as in a crash or an upgrade."""
        await self._operator.aclose()

    async def start_operator(self) -> None:
        """Start a new operator."""
        operator = build_operator(self.client, self.settings)
        self._operator_runnables = [*operator.runnables, *operator.leader_runnables]
        await self._operator.enter_async_context(
            run_runnables(operator.runnables, operator.leader_runnables)
        )

    def _get_namespace(self, resource: Resource[Any]) -> str | None:
        return self.namespace if resource.namespaced else None


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def scenario_cluster(
    api: ScenarioApi,
    *,
    nodes: int = 30,
    free_nodes: int = 0,
    settings: OperatorSettings = SETTINGS,
    with_scheduler: bool = True,
    node_groups: Sequence[NodeGroup] = (),
) -> AsyncGenerator[ScenarioCluster]:
    """A cluster on one of the servers; its objects are deleted afterwards."""
    groups = node_groups or [
        NodeGroup(f"{api.namespace}-n", nodes, memory="150Mi", start="10ms", stop="10ms")
    ]
    fleet = Fleet(nodes=tuple(groups), heartbeat="1h")  # no controller misses them
    async with api.client() as client, AsyncExitStack() as stack:
        await _install(client)
        simulated_pods = Reflector(client, SIM_PODS)
        simulated = SimulatedNodes(client, fleet, lambda: datetime.now(UTC), simulated_pods)
        await stack.enter_async_context(run_runnables([simulated_pods, simulated], []))
        await simulated.wait_registered()
        known = [
            each["metadata"]["name"]
            for each in (await client.list(NODES)).items
            if each["metadata"]["name"].startswith(f"{api.namespace}-")
        ]
        others: list[Runnable] = [simulated_pods]
        created = ScenarioCluster(
            client, api.namespace, settings, _sort_nodes(known), others, AsyncExitStack()
        )
        await created.uncordon_nodes(free_nodes)
        if with_scheduler:
            binder = GangBinder(client, prefix=f"{api.namespace}-")
            await stack.enter_async_context(run_runnables(binder.runnables, []))
            others += binder.runnables
            created.binder = binder
        empties = EmptyFieldWatcher(client, api.namespace)
        await stack.enter_async_context(run_runnables(empties.reflectors, []))
        await created.start_operator()
        try:
            yield created
        finally:
            await _delete_all(created)
            await created.stop_operator()
            await asyncio.gather(*(client.delete(NODES, node) for node in created.nodes))
        assert not empties.found, sorted(empties.found)


async def _install(client: Client) -> None:
    """Define our kinds, on a server that does not know them yet."""
    kinds = [_to_resource(each) for each in load_definitions()]
    if all(await asyncio.gather(*(_is_served(client, each) for each in kinds))):
        return
    for each in load_definitions():
        await client.apply(
            DEFINITIONS, each["metadata"]["name"], each, field_manager="kilonova-scheduler"
        )
    for each in kinds:
        await wait_for_condition(lambda each=each: _is_served(client, each))


def _to_resource(definition: JsonObject) -> Resource[Any]:
    spec = definition["spec"]
    called = spec["names"]
    (version,) = [each["name"] for each in spec["versions"] if each["storage"]]
    namespaced = spec["scope"] == "Namespaced"
    return unstructured_resource(
        spec["group"], version, called["plural"], called["kind"], namespaced
    )


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource)
    except ApiStatusError as error:
        if error.code not in (404, 429):  # kube-apiserver returns 429 for a new kind
            raise
        return False
    return True


async def _delete_all(cluster: ScenarioCluster) -> None:
    for each in await cluster.list_objects(SETS):
        await cluster.client.delete(SETS, each["metadata"]["name"], cluster.namespace)

    async def gone() -> bool:
        return not await cluster.list_objects(PODS) and not await cluster.list_objects(CLIQUES)

    try:
        await cluster.wait_until(gone)
    except Conflict:
        return


def _sort_nodes(nodes: list[str]) -> list[str]:
    return sorted(nodes, key=lambda name: (len(name), name))
