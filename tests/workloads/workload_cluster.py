"""An embedded cluster with simulated nodes and our CRDs, and actions of a user."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.api.grove import PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.kube import Client, Manager, NotFound, Runnable
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import run_cluster, wait_for_condition
from tests.workloads.api_objects import to_manifest

SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = unstructured_resource("grove.io", "v1alpha1", "podcliques", "PodClique", True)
SCALING_GROUPS = unstructured_resource(
    "grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", True
)
TOPOLOGY_BINDINGS = unstructured_resource(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False
)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
SERVICES = unstructured_resource("", "v1", "services", "Service", True)
AUTOSCALERS = unstructured_resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
)
RESOURCE_CLAIMS = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True
)
CONTROLLER_REVISIONS = unstructured_resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", True
)
CHILDREN = (
    CLIQUES,
    SCALING_GROUPS,
    GANGS,
    PODS,
    SERVICES,
    AUTOSCALERS,
    RESOURCE_CLAIMS,
    CONTROLLER_REVISIONS,
)
"""Every kind that the operator makes."""

FLEET = Fleet((NodeGroup("node", 10),))
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class WorkloadCluster:
    """A cluster and a user's client."""

    cluster: EmbeddedCluster
    client: Client
    """Of a user."""

    async def apply(self, set_: PodCliqueSet | JsonObject) -> None:
        """Apply a set, as with kubectl."""
        body = to_manifest(set_) if isinstance(set_, PodCliqueSet) else set_
        name = body["metadata"]["name"]
        await self.client.apply(SETS, name, body, NAMESPACE, field_manager="user")

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            namespace = NAMESPACE if resource.namespaced else None
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def list_objects(self, resource: Resource[Any]) -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, NAMESPACE)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def list_names(self, resource: Resource[Any]) -> list[str]:
        """The names of all objects of a kind."""
        return [each["metadata"]["name"] for each in await self.list_objects(resource)]

    async def get_status(self, name: str = "sys") -> JsonObject:
        """A set's status."""
        found = await self.client.get(SETS, name, NAMESPACE)
        return found.get("status", {})

    async def wait_for_status(
        self, condition: Callable[[JsonObject], bool], name: str = "sys", timeout: float = 120.0
    ) -> JsonObject:
        """Wait until a condition holds for a set's status."""

        async def is_true() -> bool:
            return condition(await self.get_status(name))

        await wait_for_condition(is_true, within=timeout)
        return await self.get_status(name)

    async def list_remaining_objects(self) -> list[str]:
        """All objects in the namespace of kinds that the operator creates, except the API's
        Service.
        """
        return [
            f"{resource.plural}/{name}"
            for resource in (SETS, *CHILDREN)
            for name in await self.list_names(resource)
            if (resource, name) != (SERVICES, "kubernetes")
        ]


@asynccontextmanager
async def workload_cluster(
    *, fleet: Fleet = FLEET, controllers: str = "*"
) -> AsyncGenerator[WorkloadCluster]:
    """A cluster with our CRDs, without an operator."""
    async with run_cluster(fleet=fleet, controllers=controllers) as cluster:
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        for each in (SETS, CLIQUES, SCALING_GROUPS, TOPOLOGY_BINDINGS, GANGS):
            await wait_for_condition(lambda each=each: _is_served(client, each))
        yield WorkloadCluster(cluster, client)


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource, NAMESPACE if resource.namespaced else None)
    except NotFound:
        return False
    return True


@asynccontextmanager
async def run_runnables(
    runnables: Sequence[Runnable], leader_runnables: Sequence[Runnable]
) -> AsyncGenerator[None]:
    """Run runnables during the context."""
    manager = Manager()
    manager.add(*runnables)
    manager.add_leader_runnables(*leader_runnables)
    task = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        manager.stop()
        await task
