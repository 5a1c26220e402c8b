"""The PodClique controller alone, on an embedded cluster; the test acts for the other
controllers.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.kube import Client, InProcessTransport
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.events import EventRecorder
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from kilonova.workloads import resources
from kilonova.workloads.builders.pod_cliques import build_clique
from kilonova.workloads.caches import build_caches
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podclique import build_clique_controller
from tests.local.embedded_cluster import LoopClock, wait_for_condition
from tests.workloads.api_objects import SETTINGS, get_current_revision
from tests.workloads.workload_cluster import (
    CLIQUES,
    GANGS,
    NAMESPACE,
    PODS,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

FLEET = Fleet((NodeGroup("n", 3, start="1s", stop="1s"),))
_ADMIN_USER = User("operator", groups=("system:masters",))


class ControllerProcess:
    """A process with the controller; it crashes before a given write."""

    def __init__(self, cluster: EmbeddedCluster, writes: int | None = None) -> None:
        self._cluster = cluster
        self._remaining_writes = writes
        self.writes: list[Request] = []
        self.crashed = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["ControllerProcess"]:
        clock = LoopClock()
        client = Client(InProcessTransport(self._handle_request), field_manager="operator")
        caches = build_caches(client)
        recorder = EventRecorder(client, "cliques", clock=clock.monotonic, wall=clock.now)
        controller = build_clique_controller(
            ControllerContext(client, caches, recorder, now=clock.now, monotonic=clock.monotonic)
        )
        parts = [*caches.runnables, recorder, controller]
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield self
        finally:
            # Cancelled without a graceful stop, as in a crash.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle_request(self, request: Request) -> Reply | StreamReply:
        if request.method != "GET" and "/events" not in request.path:
            if self._remaining_writes == 0:
                self.crashed.set()
                await asyncio.Event().wait()
            if self._remaining_writes is not None:
                self._remaining_writes -= 1
            self.writes.append(request)
        return await self._cluster.api.handle(request, _ADMIN_USER)


@dataclass(frozen=True, slots=True)
class CliqueCluster:
    """A cluster, and the actions of users and of the other controllers."""

    cluster: WorkloadCluster

    async def add_set(self, set_: PodCliqueSet) -> PodCliqueSet:
        """A set as the API keeps it."""
        await self.cluster.apply(set_)
        return await self.cluster.client.get(resources.SETS, set_.metadata.name, NAMESPACE)

    async def add_clique(self, set_: PodCliqueSet, name: str) -> JsonObject:
        """A clique of replica 0 of a set, as the podcliqueset_replica controller creates it."""
        body = build_clique(set_, 0, get_current_revision(set_), name, None, SETTINGS)
        return await self.cluster.client.create(CLIQUES, body, NAMESPACE)

    async def add_gang(
        self, *cliques: JsonObject, listed: bool = True, name: str = "sys-0"
    ) -> None:
        """A gang of cliques; it lists their first pods."""
        groups = [
            _build_pod_group(each["metadata"]["name"], each["spec"]["replicas"] if listed else 0)
            for each in cliques
        ]
        metadata = {"name": name, "labels": {names.MANAGED_BY: names.OPERATOR}}
        body = {"metadata": metadata, "spec": {"podgroups": groups}}
        await self.cluster.client.create(GANGS, body, NAMESPACE)

    async def add_pods_to_gang(self) -> None:
        """Let the gang list all pods there are."""
        by_clique: dict[str, list[str]] = {}
        for pod in await self.list_pods():
            own = pod["metadata"]
            by_clique.setdefault(own["labels"][names.POD_CLIQUE], []).append(own["name"])
        groups = [
            _build_named_pod_group(clique, found) for clique, found in sorted(by_clique.items())
        ]
        await self.patch(GANGS, "sys-0", {"spec": {"podgroups": groups}})

    async def patch(self, resource: Any, name: str, patch: JsonObject, sub: str = "") -> None:
        await self.cluster.client.patch(resource, name, patch, NAMESPACE, subresource=sub)

    async def allow_update(self, set_name: str = "sys") -> None:
        """Let replica 0 be updated."""
        progress = {"currentlyUpdating": [{"replicaIndex": 0}]}
        await self.patch(SETS, set_name, {"status": {"updateProgress": progress}}, "status")

    async def change_template(self, name: str, hash_: str, image: str) -> None:
        """Update the template of a clique, as the podcliqueset_replica controller does."""
        labels = {names.POD_TEMPLATE_HASH: hash_, names.GENERATION_HASH: hash_}
        pod_spec = {"containers": [{"name": "main", "image": image}]}
        patch = {"metadata": {"labels": labels}, "spec": {"podSpec": pod_spec}}
        await self.patch(CLIQUES, name, patch)

    async def scale(self, name: str, replicas: int) -> None:
        await self.cluster.client.set_scale(CLIQUES, name, NAMESPACE, replicas)

    async def list_pods(self, clique: str | None = None) -> list[Any]:
        """Pods that are not terminating, by name."""
        found = await self.cluster.list_objects(PODS)
        return [
            each
            for each in found
            if not each["metadata"].get("deletionTimestamp")
            and clique in (None, each["metadata"]["labels"][names.POD_CLIQUE])
        ]

    async def list_indexes(self, clique: str) -> list[int]:
        """The indexes that pods of a clique hold."""
        found = await self.list_pods(clique)
        return sorted(int(each["metadata"]["labels"][names.POD_INDEX]) for each in found)

    async def get_status(self, clique: str = "sys-0-w") -> JsonObject:
        found = await self.cluster.get(CLIQUES, clique)
        return found.get("status", {})

    async def wait_for_status(
        self, condition: Callable[[JsonObject], bool], clique: str = "sys-0-w", timeout: float = 120
    ) -> JsonObject:
        """Wait until a condition holds for a clique's status."""

        async def is_true() -> bool:
            return condition(await self.get_status(clique))

        await wait_for_condition(is_true, within=timeout)
        return await self.get_status(clique)

    async def wait_until_ready(self, count: int, clique: str = "sys-0-w") -> JsonObject:
        """Wait until so many pods are there, ready and of the clique's template."""
        fields = ("replicas", "readyReplicas", "updatedReplicas")
        return await self.wait_for_status(
            lambda each: all(each.get(field, 0) == count for field in fields), clique
        )

    async def wait_until_deleted(self, pods: Sequence[Any]) -> None:
        """Wait until these pods, by uid, are gone."""
        old = {each["metadata"]["uid"] for each in pods}

        async def replaced() -> bool:
            return not old & {
                each["metadata"]["uid"] for each in await self.cluster.list_objects(PODS)
            }

        await wait_for_condition(replaced)


@asynccontextmanager
async def clique_cluster(*, fleet: Fleet = FLEET) -> AsyncGenerator[CliqueCluster]:
    """A cluster that knows our kinds."""
    async with workload_cluster(fleet=fleet) as cluster:
        yield CliqueCluster(cluster)


@asynccontextmanager
async def running_controller(
    *, fleet: Fleet = FLEET
) -> AsyncGenerator[tuple[CliqueCluster, ControllerProcess]]:
    """The running controller."""
    async with (
        clique_cluster(fleet=fleet) as cluster,
        ControllerProcess(cluster.cluster.cluster).running() as process,
    ):
        yield cluster, process


def get_conditions(status: JsonObject) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def _build_pod_group(clique: str, pods: int) -> JsonObject:
    return _build_named_pod_group(clique, [names.pod(clique, index, 0) for index in range(pods)])


def _build_named_pod_group(clique: str, pods: Sequence[str]) -> JsonObject:
    references = [{"namespace": NAMESPACE, "name": name} for name in sorted(pods)]
    return {"name": clique, "minReplicas": 1, "podReferences": references}
