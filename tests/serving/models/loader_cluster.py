"""A cluster with a service whose servers listen on this machine, and the model loader."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.api.serving import names
from kilonova.kube import Backoff, Client, Manager, unstructured_resource
from kilonova.kube.events import EventRecorder
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.serving.caches import build_caches
from kilonova.serving.context import ServingContext
from kilonova.serving.gateway.model import ControlPlaneAddress, ServiceKey
from kilonova.serving.models.loader import build_model_loader
from kilonova.serving.models.watched_server import LoaderTimes
from kilonova.serving.providers import Listener
from kilonova.serving.settings import ServingSettings
from tests.local.embedded_cluster import ACCOUNTS, LoopClock, find, run_cluster, wait_for_condition

SERVICES = unstructured_resource(
    "serving.kilonova.dev", "v1alpha1", "inferenceservices", "InferenceService", True
)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
EVENTS = unstructured_resource("", "v1", "events", "Event", True)
NAMESPACE = "default"
SERVICE = "vision"
GROUP = "gpu"
TIMES = LoaderTimes(
    poll=0.05,
    request=0.3,
    away=0.8,
    settle=0.1,
    load=0.5,
    unload=2.0,
    retry=Backoff(0.3, 0.6),
)


class ScriptedRequests:
    """Models that requests wait for, as the control plane says it."""

    def __init__(self) -> None:
        self.models: frozenset[str] = frozenset()
        self._listeners: list[Listener] = []

    def requested(self, key: ServiceKey, group: str) -> frozenset[str]:
        return self.models if group == GROUP else frozenset()

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def request(self, *models: str) -> None:
        """Requests for these models arrive."""
        self.models = frozenset(models)
        for each in self._listeners:
            each((NAMESPACE, SERVICE))


@dataclass
class LoaderCluster:
    """A client of the cluster."""

    client: Client
    loader_client: Client
    requests: ScriptedRequests = field(default_factory=ScriptedRequests)

    async def create_service(
        self,
        models: list[dict[str, Any]],
        *,
        ports: dict[str, int],
        memory: str | None = None,
    ) -> None:
        """A service with a group whose models are placed."""
        placement: dict[str, Any] = {"models": models}
        if memory is not None:
            placement["serverMemory"] = memory
        group = {"name": GROUP, "ports": ports, "modelPlacement": placement}
        body = {"metadata": {"name": SERVICE}, "spec": {"servers": [group]}}
        await self.client.create(SERVICES, body, NAMESPACE)

    async def declare(self, models: list[dict[str, Any]]) -> None:
        """Replace the models of the group."""
        found = await self.client.get(SERVICES, SERVICE, NAMESPACE)
        servers = found["spec"]["servers"]
        servers[0]["modelPlacement"]["models"] = models
        await self.client.patch(SERVICES, SERVICE, {"spec": {"servers": servers}}, NAMESPACE)

    async def create_server(self, name: str, address: str) -> None:
        """The running pod of a server."""
        labels = {
            names.SERVICE: SERVICE,
            names.SERVER: GROUP,
            names.ROLE: "server",
            names.ENTRY: "true",
        }
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "server", "image": "server"}]},
        }
        await self.client.create(PODS, body, NAMESPACE)
        status = {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.client.patch(PODS, name, {"status": status}, NAMESPACE, subresource="status")

    async def count_restart(self, name: str, restarts: int) -> None:
        """The kubelet reports that the server was started again."""
        statuses = [
            {
                "name": "server",
                "ready": True,
                "restartCount": restarts,
                "image": "server",
                "imageID": "",
            }
        ]
        patch = {"status": {"containerStatuses": statuses}}
        await self.client.patch(PODS, name, patch, NAMESPACE, subresource="status")

    async def get_loaded(self, pod: str) -> list[str] | None:
        """What the annotation of a pod says that it has loaded."""
        found = await find(self.client, PODS, pod)
        text = found["metadata"].get("annotations", {}).get(names.LOADED_MODELS)
        return None if text is None else json.loads(text)

    async def get_states(self, pod: str) -> dict[str, Any]:
        """The states of the managed models of a pod."""
        found = await find(self.client, PODS, pod)
        return json.loads(found["metadata"].get("annotations", {}).get(names.MODEL_STATES, "{}"))

    async def wait_loaded(self, **expected: list[str]) -> None:
        """Wait until pods have loaded what is expected."""

        async def are_loaded() -> bool:
            return all([await self.get_loaded(pod) == want for pod, want in expected.items()])

        try:
            await wait_for_condition(are_loaded, within=30, every=0.02)
        except AssertionError:
            found = {pod: await self.get_loaded(pod) for pod in expected}
            states = {pod: await self.get_states(pod) for pod in expected}
            raise AssertionError(f"loaded: {found}, {states}; expected: {expected}") from None

    async def wait_state(self, pod: str, check: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the states of a pod's models are as expected."""

        async def holds() -> bool:
            return check(await self.get_states(pod))

        try:
            await wait_for_condition(holds, within=30, every=0.02)
        except AssertionError:
            raise AssertionError(f"states of {pod}: {await self.get_states(pod)}") from None

    async def list_events(self) -> list[tuple[str, str]]:
        """Reasons and messages of the events of the service."""
        found = (await self.client.list(EVENTS, NAMESPACE)).items
        return [(each["reason"], each["message"]) for each in found]


@asynccontextmanager
async def loader_cluster(
    *, with_loader: bool = True, times: LoaderTimes = TIMES
) -> AsyncGenerator[LoaderCluster]:
    """A cluster from start to stop, in real time; with the loader unless told otherwise."""
    async with run_cluster(controllers="definition-controller") as cluster:
        client = cluster.client("user")
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, NAMESPACE)
        await install_crds(client, load_definitions())
        found = LoaderCluster(client, cluster.client("serving"))
        if not with_loader:
            yield found
            return
        async with running_loader(found, times):
            yield found


@asynccontextmanager
async def running_loader(
    cluster: LoaderCluster, times: LoaderTimes = TIMES
) -> AsyncGenerator[None]:
    """The loader and its caches, of a process that leads."""
    client, clock = cluster.loader_client, LoopClock()
    caches = build_caches(client)
    recorder = EventRecorder(
        client, "kilonova-serving", clock=clock.monotonic, wall=clock.now, flush_seconds=0.1
    )
    context = ServingContext(
        client,
        caches,
        recorder,
        ServingSettings(),
        lambda: ControlPlaneAddress("127.0.0.1", 0),
        now=clock.now,
        monotonic=clock.monotonic,
    )
    manager = Manager()
    manager.add(caches.services, caches.pods, recorder)
    manager.add_leader_runnables(build_model_loader(context, cluster.requests, times=times))
    task = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        manager.stop()
        await task
