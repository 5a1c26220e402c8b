"""An embedded cluster with inference services, in virtual time.

Pods run on simulated nodes: they become ready, and serve nothing. The operator of PodCliqueSets and
a scheduler run, so that servers are gangs as in any cluster.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.kube import (
    Client,
    NotFound,
    Reply,
    Request,
    Resource,
    Transport,
    unstructured_resource,
)
from kilonova.kube.events import EventRecorder
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from kilonova.serving.caches import build_caches
from kilonova.serving.context import ServingContext
from kilonova.serving.controllers.service.controller import build_service_controller
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.settings import ServingSettings
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import EVENTS, LoopClock, run_cluster, wait_for_condition
from tests.workloads.crashing_operator import BuiltControllers, is_write
from tests.workloads.workload_cluster import run_runnables

INFERENCE_SERVICES = unstructured_resource(
    "serving.kilonova.dev", "v1alpha1", "inferenceservices", "InferenceService", True
)
SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
SERVICES = unstructured_resource("", "v1", "services", "Service", True)
SECRETS = unstructured_resource("", "v1", "secrets", "Secret", True)
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
INGRESSES = unstructured_resource("networking.k8s.io", "v1", "ingresses", "Ingress", True)
NAMESPACE = "default"

FLEET = Fleet((NodeGroup("node", 4, start="100ms", stop="100ms"),))
CONTROL_PLANE = ControlPlaneAddress("control-plane.example", 18000)


def server_group(name: str = "model", **fields: Any) -> Any:
    """A group of servers of the runtime ModelServer, which drain for a second."""
    return {"name": name, "runtime": "ModelServer", "drain": "1s", **fields}


def inference_service(name: str = "web", *groups: Any, **spec: Any) -> Any:
    """An InferenceService; by default of one group with one server."""
    return {
        "metadata": {"name": name},
        "spec": {"servers": list(groups) or [server_group()], **spec},
    }


@dataclass(frozen=True, slots=True)
class ServingCluster:
    """A cluster, and what a user does with it."""

    cluster: EmbeddedCluster
    client: Client
    """Of a user."""

    async def create(self, name: str = "web", *groups: Any, **spec: Any) -> Any:
        """Create a service."""
        body = inference_service(name, *groups, **spec)
        return await self.client.create(INFERENCE_SERVICES, body, NAMESPACE)

    async def patch(self, spec: Any, name: str = "web") -> Any:
        """Merge fields into the spec of a service."""
        return await self.client.patch(INFERENCE_SERVICES, name, {"spec": spec}, NAMESPACE)

    async def scale(self, group: str, replicas: int, name: str = "web") -> None:
        """Set the number of servers of a group, as an autoscaler does."""
        patch = {"spec": {"replicas": replicas}}
        await self.client.patch(SETS, f"{name}-{group}", patch, NAMESPACE, subresource="scale")

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            return await self.client.get(resource, name, NAMESPACE)
        except NotFound:
            return None

    async def list_objects(self, resource: Resource[Any], **labels: str) -> list[Any]:
        """The objects of a kind with these labels of ours, by name."""
        found = await self.client.list(resource, NAMESPACE)
        wanted = {f"serving.kilonova.dev/{key}": value for key, value in labels.items()}
        return sorted(
            (
                each
                for each in found.items
                if wanted.items() <= each["metadata"].get("labels", {}).items()
            ),
            key=lambda each: each["metadata"]["name"],
        )

    async def list_names(self, resource: Resource[Any], **labels: str) -> list[str]:
        """The names of these objects."""
        return [each["metadata"]["name"] for each in await self.list_objects(resource, **labels)]

    async def get_status(self, name: str = "web") -> Any:
        """The status of a service."""
        return (await self.client.get(INFERENCE_SERVICES, name, NAMESPACE)).get("status", {})

    async def wait_for(
        self, condition: Callable[[Any], bool], name: str = "web", within: float = 60.0
    ) -> Any:
        """Wait until a condition holds for a service's status; returns the status."""
        status: Any = {}

        async def holds() -> bool:
            nonlocal status
            status = await self.get_status(name)
            return condition(status)

        try:
            await wait_for_condition(holds, within=within)
        except AssertionError:
            raise AssertionError(f"status of {name}: {status}") from None
        return status

    async def wait_for_phase(self, phase: str, name: str = "web", within: float = 60.0) -> Any:
        """Wait for a phase; returns the status."""
        return await self.wait_for(lambda each: each.get("phase") == phase, name, within)

    async def list_events(self, name: str = "web") -> list[tuple[str, str]]:
        """Reasons and messages of the events of a service, in the order of their occurrence."""
        found = await self.client.list(EVENTS, NAMESPACE)
        own = [
            each
            for each in found.items
            if (each["involvedObject"]["kind"], each["involvedObject"]["name"])
            == ("InferenceService", name)
        ]
        own.sort(key=lambda each: each["firstTimestamp"])
        return [(each["reason"], each["message"]) for each in own]


@asynccontextmanager
async def serving_cluster(
    *,
    fleet: Fleet = FLEET,
    controllers: bool = True,
    settings: ServingSettings | None = None,
) -> AsyncGenerator[ServingCluster]:
    """A cluster from start to stop, with the controller of services unless told otherwise."""
    async with run_cluster(fleet=fleet, scheduler=True) as cluster:
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        for each in (INFERENCE_SERVICES, SETS, GANGS):
            await wait_for_condition(lambda each=each: _is_served(client, each))
        clock = LoopClock()
        operator = build_operator(
            cluster.client("operator"),
            OperatorSettings(),
            now=clock.now,
            monotonic=clock.monotonic,
        )
        found = ServingCluster(cluster, client)
        async with run_runnables(operator.runnables, operator.leader_runnables):
            if not controllers:
                yield found
                return
            async with running_controllers(cluster, settings):
                yield found


@asynccontextmanager
async def running_controllers(
    cluster: EmbeddedCluster, settings: ServingSettings | None = None
) -> AsyncGenerator[list[Request]]:
    """The controller of services from start to stop; yields its writes."""
    writes: list[Request] = []
    client = cluster.client("serving").wrap_transport(lambda inner: _Recorder(inner, writes))
    built = build_controllers(client, LoopClock(), settings)
    async with run_runnables(built.runnables, built.leader_runnables):
        yield writes


class _Recorder(Transport):
    """Records the writes that it forwards, except for events."""

    def __init__(self, inner: Transport, writes: list[Request]) -> None:
        self._inner = inner
        self._writes = writes

    async def send(self, request: Request) -> Reply:
        if is_write(request):
            self._writes.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class _Built:
    runnables: tuple[Any, ...]
    leader_runnables: tuple[Any, ...]


def build_context(
    client: Client, clock: LoopClock, settings: ServingSettings | None = None
) -> ServingContext:
    """A context in virtual time, whose control plane is elsewhere."""
    known = settings or ServingSettings()
    return ServingContext(
        client,
        build_caches(client, namespace=known.namespace),
        EventRecorder(client, "kilonova-serving", clock=clock.monotonic, wall=clock.now),
        known,
        lambda: CONTROL_PLANE,
        clock.now,
        clock.monotonic,
    )


def build_controllers(
    client: Client, clock: LoopClock, settings: ServingSettings | None = None
) -> BuiltControllers:
    """The controller of services and what it needs."""
    context = build_context(client, clock, settings)
    return _Built(
        (*context.caches.runnables, context.recorder), (build_service_controller(context),)
    )


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource, NAMESPACE)
    except NotFound:
        return False
    return True
