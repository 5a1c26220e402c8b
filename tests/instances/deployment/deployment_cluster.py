"""An embedded cluster with the deployment controller, in virtual time.

`SimulatedEngines` stands for the instance controller: it writes the statuses of instances, so that
a test decides which become ready, when, and which have no place.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.api.inference_engine import names
from kilonova.api.times import format_rfc3339
from kilonova.instances.caches import build_caches
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.controller import build_deployment_controller
from kilonova.kube import (
    Client,
    Conflict,
    Manager,
    NotFound,
    Reflector,
    Resource,
    unstructured_resource,
)
from kilonova.kube.events import EventRecorder
from kilonova.local.apiserver.bootstrap import install_crds
from tests.local.embedded_cluster import EVENTS, LoopClock, run_cluster, wait_for_condition

GROUP = "inference-engine.groq.io"
DEPLOYMENTS = unstructured_resource(
    GROUP, "v1", "inferenceenginedeployments", "InferenceEngineDeployment", True
)
INSTANCES = unstructured_resource(
    GROUP, "v1", "inferenceengineinstances", "InferenceEngineInstance", True
)
RELEASES = unstructured_resource(GROUP, "v1", "releases", "Release", True)
REVISIONS = unstructured_resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)


def template_of(release: str, **fields: Any) -> dict[str, Any]:
    """The template of a release."""
    return {"model": "llama", "targetAgents": 4, "image": f"engine:{release}", **fields}


def deployment_body(
    release: str = "r1", replicas: int = 3, name: str = "llama", **spec: Any
) -> dict[str, Any]:
    """A deployment with an inline template."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "release": release,
            "template": template_of(release),
            **spec,
        },
    }


def release_of(instance: Any) -> str:
    """The release that an instance is made from."""
    return instance["metadata"]["labels"][names.RELEASE]


def is_present(instance: Any) -> bool:
    """Whether an instance is not being deleted."""
    return "deletionTimestamp" not in instance["metadata"]


@dataclass
class SimulatedEngines:
    """Makes instances ready some time after their creation, unless told otherwise."""

    client: Client
    now: Callable[[], datetime]
    start_seconds: float = 10.0
    unplaceable: set[str] = field(default_factory=set[str])
    """Releases without a place in the cluster."""
    failing: set[str] = field(default_factory=set[str])
    """Releases that never become ready."""

    async def run(self) -> None:
        """Watch instances, and write their statuses."""
        instances = Reflector(self.client, INSTANCES)
        async with asyncio.TaskGroup() as tasks:

            def on_change(old: Any, new: Any) -> None:
                if old is None and not new.get("status"):
                    tasks.create_task(self._start(new))

            instances.store.add_event_handler(on_change)
            await instances.run()

    async def _start(self, instance: Any) -> None:
        release = release_of(instance)
        if release in self.unplaceable:
            await self.set_status(instance, "Failed", allocated="False")
            return
        await self.set_status(instance, "Starting")
        if release not in self.failing:
            await asyncio.sleep(self.start_seconds)
            await self.set_status(instance, "Ready", ready="True")

    async def set_status(
        self, instance: Any, phase: str, *, allocated: str = "True", ready: str = "False"
    ) -> None:
        """Write the status of an instance, if it still exists."""
        now = format_rfc3339(self.now())
        message = "0/4 nodes have 8 free GPUs" if allocated == "False" else ""
        conditions = [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": text,
                "lastTransitionTime": now,
            }
            for type_, status, reason, text in (
                (
                    "Allocated",
                    allocated,
                    "Allocated" if allocated == "True" else "InsufficientCapacity",
                    message,
                ),
                ("Ready", ready, "AllReady" if ready == "True" else "NotReady", ""),
            )
        ]
        known = instance["metadata"]
        body = {
            "metadata": {"uid": known["uid"]},
            "status": {
                "phase": phase,
                "targetAgents": 4,
                "readyAgents": 4 if ready == "True" else 0,
                "pendingAgents": 0 if ready == "True" else 4,
                "conductorReady": ready == "True",
                "conditions": conditions,
            },
        }
        try:
            await self.client.patch(
                INSTANCES, known["name"], body, known["namespace"], subresource="status"
            )
        except (NotFound, Conflict):
            return


@dataclass(frozen=True)
class DeploymentCluster:
    """A namespace with the controller."""

    client: Client
    namespace: str
    engines: SimulatedEngines

    async def create(self, **fields: Any) -> Any:
        """Create a deployment, see `deployment_body`."""
        return await self.client.create(DEPLOYMENTS, deployment_body(**fields), self.namespace)

    async def patch(self, spec: Any, name: str = "llama") -> Any:
        """Merge fields into the spec of a deployment."""
        return await self.client.patch(DEPLOYMENTS, name, {"spec": spec}, self.namespace)

    async def release(self, release: str, **spec: Any) -> Any:
        """Roll out a release."""
        return await self.patch({"release": release, "template": template_of(release), **spec})

    async def list_instances(self) -> list[Any]:
        """The instances that are not being deleted, by name."""
        found = (await self.client.list(INSTANCES, self.namespace)).items
        return sorted(filter(is_present, found), key=lambda each: each["metadata"]["name"])

    async def list_releases(self) -> list[str]:
        """The releases of the instances."""
        return sorted(map(release_of, await self.list_instances()))

    async def list_ready(self) -> list[Any]:
        """The ready instances."""
        return [
            each
            for each in await self.list_instances()
            if each.get("status", {}).get("phase") == "Ready"
        ]

    async def get_status(self, name: str = "llama") -> Any:
        """The status of a deployment."""
        found = await self.client.get(DEPLOYMENTS, name, self.namespace)
        status = found.get("status", {})
        is_current = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if is_current else {}

    async def wait_for(
        self, condition: Callable[[Any], bool], within: float = 300.0, name: str = "llama"
    ) -> Any:
        """Wait until a condition holds for a deployment's status; returns the status."""
        status: Any = {}

        async def holds() -> bool:
            nonlocal status
            status = await self.get_status(name)
            return bool(status) and condition(status)

        try:
            await wait_for_condition(holds, within=within)
        except AssertionError:
            raise AssertionError(f"status of {name}: {status}") from None
        return status

    async def wait_for_reason(self, type_: str, reason: str, within: float = 300.0) -> Any:
        """Wait for the reason of a condition; returns the status."""
        return await self.wait_for(
            lambda status: condition_of(status, type_).get("reason") == reason, within
        )

    async def list_events(self, name: str = "llama") -> list[tuple[str, str]]:
        """Reasons and messages of a deployment's events."""
        found = (await self.client.list(EVENTS, self.namespace)).items
        own = [each for each in found if each["involvedObject"]["name"] == name]
        return [(each["reason"], each["message"]) for each in own]


def condition_of(status: Any, type_: str) -> Any:
    """A condition of a status; an empty one if there is none."""
    return next((each for each in status.get("conditions", []) if each["type"] == type_), {})


async def wait_until(condition: Callable[[], Awaitable[bool]], within: float = 300.0) -> None:
    """Wait for a condition."""
    await wait_for_condition(condition, within=within)


@asynccontextmanager
async def deployment_cluster(*, controller: bool = True) -> AsyncGenerator[DeploymentCluster]:
    """A cluster from start to stop, with the controller unless told otherwise."""
    async with run_cluster() as cluster:
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        for each in (DEPLOYMENTS, INSTANCES, RELEASES):
            await wait_for_condition(lambda each=each: is_served(client, each))
        clock = LoopClock()
        engines = SimulatedEngines(cluster.client("engines"), clock.now)
        running = asyncio.create_task(engines.run())
        found = DeploymentCluster(client, "default", engines)
        try:
            if not controller:
                yield found
                return
            async with running_controller(cluster.client("instances"), cluster.new_id):
                yield found
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def running_controller(
    client: Client, new_id: Callable[[], str], *, crashes: bool = False
) -> AsyncGenerator[None]:
    """The controller from start to stop; if it crashes, it does not stop in order."""
    caches, clock = build_caches(client), LoopClock()
    recorder = EventRecorder(client, "kilonova-instances", clock=clock.monotonic, wall=clock.now)
    context = ControllerContext(
        client, caches, recorder, now=clock.now, monotonic=clock.monotonic, new_id=new_id
    )
    manager = Manager()
    manager.add(*caches.runnables, recorder)
    manager.add_leader_runnables(*build_deployment_controller(context))
    task = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        if crashes:
            task.cancel()
            await asyncio.wait({task})
        else:
            manager.stop()
            await task


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Whether the server knows a kind."""
    try:
        await client.list(resource, "default")
    except NotFound:
        return False
    return True
