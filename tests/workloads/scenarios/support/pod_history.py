"""The history of a scenario's pods, recorded from watch events."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.grove import names
from kilonova.kube import Reflector
from tests.workloads.scenarios.support.scenario_cluster import (
    TIMEOUT_SECONDS,
    ScenarioCluster,
    is_ready,
)
from tests.workloads.workload_cluster import PODS, run_runnables


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod as it was at some moment."""

    name: str
    uid: str
    clique: str
    replica: int
    """Of the set."""
    group_replica: int | None
    """The replica of its scaling group."""
    image: str
    ready: bool
    placed: bool
    released: bool
    """Whether what it starts after has started."""


PodSnapshot = tuple[PodRecord, ...]
"""All pods that are not ending."""


class PodHistory:
    """Records all pods of a namespace."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self.snapshots: list[PodSnapshot] = []
        self.created: list[PodRecord] = []
        self.deleted: list[PodRecord] = []
        """As they were before, in the order in which they were deleted."""
        self.reflector = Reflector(cluster.client, PODS, cluster.namespace)
        self.reflector.store.add_event_handler(self._on_pod_change)
        self._cluster = cluster
        self._live_pods: dict[str, PodRecord] = {}
        self._changed_event = asyncio.Event()

    @property
    def current(self) -> PodSnapshot:
        return tuple(self._live_pods.values())

    def list_pods(self, clique: str) -> list[PodRecord]:
        """The pods of a clique now."""
        return [each for each in self.current if each.clique == clique]

    def list_images(self, clique: str = "") -> set[str]:
        """Which versions there are now, of one clique or all."""
        return {each.image for each in self.current if clique in ("", each.clique)}

    def reset(self) -> None:
        """Forget what was before."""
        self.snapshots, self.created, self.deleted = [self.current], [], []

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not condition():
                self._changed_event.clear()
                await self._changed_event.wait()

    async def wait_until_current(self) -> None:
        """Wait until all changes before this call are recorded."""
        store = self.reflector.store

        async def condition() -> bool:
            found = await self._cluster.list_objects(PODS)
            stored = {
                each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found
            }
            shown = {each["metadata"]["uid"]: store.version_of(each) for each in store.objects()}
            return shown == stored

        await self._cluster.wait_until(condition)

    async def wait_until_ready(self, count: int, image: str = "") -> None:
        """Wait until there are exactly so many pods and all are ready, and of an image."""

        def condition() -> bool:
            pods = self.current
            return len(pods) == count and all(
                each.ready and image in ("", each.image) for each in pods
            )

        await self.wait_until(condition)

    def _on_pod_change(self, old: Any, new: Any) -> None:
        pod = new or old
        uid = pod["metadata"]["uid"]
        known = self._live_pods.get(uid)
        if new is None or "deletionTimestamp" in new["metadata"]:
            if known is None:
                return
            del self._live_pods[uid]
            self.deleted.append(known)
        else:
            self._live_pods[uid] = _to_record(new)
            if known is None:
                self.created.append(self._live_pods[uid])
        self.snapshots.append(self.current)
        self._changed_event.set()


@asynccontextmanager
async def pod_history(cluster: ScenarioCluster) -> AsyncGenerator[PodHistory]:
    """Follow the pods of a cluster."""
    created = PodHistory(cluster)
    async with run_runnables([created.reflector], []):
        await created.reflector.wait_for_sync()
        cluster.other_runnables.append(created.reflector)
        yield created


def _to_record(pod: Any) -> PodRecord:
    labels = pod["metadata"]["labels"]
    group_replica = labels.get(names.SCALING_GROUP_REPLICA_INDEX)
    return PodRecord(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        clique=labels[names.POD_CLIQUE],
        replica=int(labels[names.SET_REPLICA_INDEX]),
        group_replica=None if group_replica is None else int(group_replica),
        image=pod["spec"]["containers"][0]["image"],
        ready=is_ready(pod),
        placed=bool(pod["spec"].get("nodeName")),
        released=names.STARTUP_RELEASED in pod["metadata"].get("annotations", {}),
    )
