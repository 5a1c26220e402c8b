"""An embedded cluster with simulated nodes that knows our kinds, and what a user does there."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.grove import PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Manager, NotFound, Part
from kilonova.kube.resource import Resource, plain
from kilonova.local.cluster import Cluster
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import eventually, running
from tests.workloads.builders import manifest

SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = plain("grove.io", "v1alpha1", "podcliques", "PodClique", True)
GROUPS = plain("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", True)
TOPOLOGIES = plain(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)
GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
PODS = plain("", "v1", "pods", "Pod", True)
SERVICES = plain("", "v1", "services", "Service", True)
AUTOSCALERS = plain(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
)
CLAIMS = plain("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
REVISIONS = plain("apps", "v1", "controllerrevisions", "ControllerRevision", True)
CHILDREN = (CLIQUES, GROUPS, GANGS, PODS, SERVICES, AUTOSCALERS, CLAIMS, REVISIONS)
"""Every kind that the operator makes."""

FLEET = Fleet((NodeGroup("node", 10),))
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a story takes place."""

    cluster: Cluster
    client: Client
    """Of a user."""

    async def apply(self, set_: PodCliqueSet | JsonObject) -> None:
        """As a user does with kubectl."""
        body = manifest(set_) if isinstance(set_, PodCliqueSet) else set_
        name = body["metadata"]["name"]
        await self.client.apply(SETS, name, body, NAMESPACE, manager="user")

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            namespace = NAMESPACE if resource.namespaced else None
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def all(self, resource: Resource[Any]) -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, NAMESPACE)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def names(self, resource: Resource[Any]) -> list[str]:
        """The names of all objects of a kind."""
        return [each["metadata"]["name"] for each in await self.all(resource)]

    async def status(self, name: str = "sys") -> JsonObject:
        """A set's status."""
        found = await self.client.get(SETS, name, NAMESPACE)
        return found.get("status", {})

    async def until(
        self, holds: Callable[[JsonObject], bool], name: str = "sys", within: float = 120.0
    ) -> JsonObject:
        """Wait until something holds of a set's status."""

        async def so() -> bool:
            return holds(await self.status(name))

        await eventually(so, within=within)
        return await self.status(name)

    async def left(self) -> list[str]:
        """Everything in the namespace that the operator may have made; the API's Service is not."""
        return [
            f"{resource.plural}/{name}"
            for resource in (SETS, *CHILDREN)
            for name in await self.names(resource)
            if (resource, name) != (SERVICES, "kubernetes")
        ]


@asynccontextmanager
async def ground(*, fleet: Fleet = FLEET, controllers: str = "*") -> AsyncGenerator[Ground]:
    """A cluster that knows our kinds, without an operator."""
    async with running(fleet=fleet, controllers=controllers) as cluster:
        client = cluster.client("user")
        await install_definitions(client)
        for each in (SETS, CLIQUES, GROUPS, TOPOLOGIES, GANGS):
            await eventually(lambda each=each: _is_served(client, each))
        yield Ground(cluster, client)


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource, NAMESPACE if resource.namespaced else None)
    except NotFound:
        return False
    return True


@asynccontextmanager
async def parts_running(parts: Sequence[Part], leading: Sequence[Part]) -> AsyncGenerator[None]:
    """Run parts of a process while inside."""
    manager = Manager()
    manager.add(*parts)
    manager.add_leading(*leading)
    task = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        manager.stop()
        await task
