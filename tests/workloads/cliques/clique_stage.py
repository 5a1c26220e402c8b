"""The controller of cliques alone, on an embedded cluster; the test does what the others would."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.kube import Client, InProcessTransport
from kilonova.kube.events import Recorder
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import User
from kilonova.local.cluster import Cluster
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.workloads import resources
from kilonova.workloads.caches import build_caches
from kilonova.workloads.cliques import build_clique_controller
from kilonova.workloads.means import Means
from kilonova.workloads.templates.cliques import clique_object
from tests.local.embedded_cluster import LoopClock, eventually
from tests.workloads.builders import SETTINGS, revision_of
from tests.workloads.ground import (
    CLIQUES,
    GANGS,
    NAMESPACE,
    PODS,
    SETS,
    Ground,
    ground,
)

NODES = Fleet((NodeGroup("n", 3, start="1s", stop="1s"),))
_MASTER = User("operator", groups=("system:masters",))


class Process:
    """A process with the controller; it dies when it is about to write once too often."""

    def __init__(self, cluster: Cluster, writes: int | None = None) -> None:
        self._cluster = cluster
        self._left = writes
        self.written: list[Request] = []
        self.died = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Process"]:
        clock = LoopClock()
        client = Client(InProcessTransport(self._answer), field_manager="operator")
        caches = build_caches(client)
        recorder = Recorder(client, "cliques", clock=clock.monotonic, wall=clock.now)
        controller = build_clique_controller(
            Means(client, caches, recorder, now=clock.now, monotonic=clock.monotonic)
        )
        parts = [*caches.parts, recorder, controller]
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield self
        finally:
            # Not asked to stop: who dies finishes nothing.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: Request) -> Reply | StreamReply:
        if request.method != "GET" and "/events" not in request.path:
            if self._left == 0:
                self.died.set()
                await asyncio.Event().wait()
            if self._left is not None:
                self._left -= 1
            self.written.append(request)
        return await self._cluster.api.handle(request, _MASTER)


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster, and what a set, its replica and a person do there."""

    place: Ground

    async def add_set(self, set_: PodCliqueSet) -> PodCliqueSet:
        """A set as the API keeps it."""
        await self.place.apply(set_)
        return await self.place.client.get(resources.SETS, set_.metadata.name, NAMESPACE)

    async def add_clique(self, set_: PodCliqueSet, name: str) -> JsonObject:
        """A clique of replica 0 of a set, as the controller of replicas makes it."""
        body = clique_object(set_, 0, revision_of(set_), name, None, SETTINGS)
        return await self.place.client.create(CLIQUES, body, NAMESPACE)

    async def add_gang(
        self, *cliques: JsonObject, listed: bool = True, name: str = "sys-0"
    ) -> None:
        """A gang of cliques; it lists the first pods they will have."""
        groups = [
            _pod_group(each["metadata"]["name"], each["spec"]["replicas"] if listed else 0)
            for each in cliques
        ]
        metadata = {"name": name, "labels": {names.MANAGED_BY: names.OPERATOR}}
        body = {"metadata": metadata, "spec": {"podgroups": groups}}
        await self.place.client.create(GANGS, body, NAMESPACE)

    async def list_pods(self) -> None:
        """Let the gang list all pods there are."""
        by_clique: dict[str, list[str]] = {}
        for pod in await self.pods():
            own = pod["metadata"]
            by_clique.setdefault(own["labels"][names.POD_CLIQUE], []).append(own["name"])
        groups = [_group_of(clique, found) for clique, found in sorted(by_clique.items())]
        await self.patch(GANGS, "sys-0", {"spec": {"podgroups": groups}})

    async def patch(self, resource: Any, name: str, patch: JsonObject, sub: str = "") -> None:
        await self.place.client.patch(resource, name, patch, NAMESPACE, subresource=sub)

    async def give_turn(self, set_name: str = "sys") -> None:
        """Let replica 0 be updated."""
        progress = {"currentlyUpdating": [{"replicaIndex": 0}]}
        await self.patch(SETS, set_name, {"status": {"updateProgress": progress}}, "status")

    async def change_template(self, name: str, hash_: str, image: str) -> None:
        """What the controller of replicas does to a clique in an update."""
        labels = {names.POD_TEMPLATE_HASH: hash_, names.GENERATION_HASH: hash_}
        pod_spec = {"containers": [{"name": "main", "image": image}]}
        patch = {"metadata": {"labels": labels}, "spec": {"podSpec": pod_spec}}
        await self.patch(CLIQUES, name, patch)

    async def scale(self, name: str, replicas: int) -> None:
        await self.place.client.set_scale(CLIQUES, name, NAMESPACE, replicas)

    async def pods(self, clique: str | None = None) -> list[Any]:
        """Pods that are not ending, by name."""
        found = await self.place.all(PODS)
        return [
            each
            for each in found
            if not each["metadata"].get("deletionTimestamp")
            and clique in (None, each["metadata"]["labels"][names.POD_CLIQUE])
        ]

    async def indexes(self, clique: str) -> list[int]:
        """The indexes that pods of a clique hold."""
        found = await self.pods(clique)
        return sorted(int(each["metadata"]["labels"][names.POD_INDEX]) for each in found)

    async def status(self, clique: str = "sys-0-w") -> JsonObject:
        found = await self.place.get(CLIQUES, clique)
        return found.get("status", {})

    async def until(
        self, holds: Callable[[JsonObject], bool], clique: str = "sys-0-w", within: float = 120
    ) -> JsonObject:
        """Wait until something holds of a clique's status."""

        async def so() -> bool:
            return holds(await self.status(clique))

        await eventually(so, within=within)
        return await self.status(clique)

    async def until_ready(self, count: int, clique: str = "sys-0-w") -> JsonObject:
        """Wait until so many pods are there, ready and of the clique's template."""
        fields = ("replicas", "readyReplicas", "updatedReplicas")
        return await self.until(
            lambda each: all(each.get(field, 0) == count for field in fields), clique
        )

    async def until_gone(self, pods: Sequence[Any]) -> None:
        """Wait until these very pods are no more."""
        old = {each["metadata"]["uid"] for each in pods}

        async def replaced() -> bool:
            return not old & {each["metadata"]["uid"] for each in await self.place.all(PODS)}

        await eventually(replaced)


@asynccontextmanager
async def stage(*, fleet: Fleet = NODES) -> AsyncGenerator[Stage]:
    """A cluster that knows our kinds."""
    async with ground(fleet=fleet) as place:
        yield Stage(place)


@asynccontextmanager
async def playing(*, fleet: Fleet = NODES) -> AsyncGenerator[tuple[Stage, Process]]:
    """The controller at work on it."""
    async with stage(fleet=fleet) as scene, Process(scene.place.cluster).running() as process:
        yield scene, process


def conditions(status: JsonObject) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def _pod_group(clique: str, pods: int) -> JsonObject:
    return _group_of(clique, [names.pod(clique, index, 0) for index in range(pods)])


def _group_of(clique: str, pods: Sequence[str]) -> JsonObject:
    references = [{"namespace": NAMESPACE, "name": name} for name in sorted(pods)]
    return {"name": clique, "minReplicas": 1, "podReferences": references}
