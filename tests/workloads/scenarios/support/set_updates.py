"""Updates of sets: actions of a user, and invariants during an update."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.pod_history import (
    PodHistory,
    PodRecord,
    PodSnapshot,
    pod_history,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import SETS

OLD, NEW, NEWER = "busybox:1.37", "busybox:1.38", "busybox:1.39"
ALL_CLIQUES = ("pc-a", "pc-b", "pc-c")


@dataclass
class UpdateScenario:
    """A running set, and the history of its pods."""

    cluster: ScenarioCluster
    history: PodHistory
    name: str

    async def get_status(self) -> Any:
        return (await self.cluster.get(SETS, self.name))["status"]

    async def edit_image(self, image: str, *cliques: str, **strategy: Any) -> None:
        """As `kubectl edit` does: another image for cliques, and a strategy if one is given."""
        found = await self.cluster.get(SETS, self.name)
        templates = found["spec"]["template"]["cliques"]
        for each in templates:
            if each["name"] in cliques:
                each["spec"]["podSpec"]["containers"][0]["image"] = image
        spec: Any = {"template": {"cliques": templates}}
        if strategy:
            spec["updateStrategy"] = strategy
        await self.cluster.client.patch(SETS, self.name, {"spec": spec}, self.cluster.namespace)

    async def use_strategy(self, **strategy: Any) -> None:
        body = {"spec": {"updateStrategy": strategy}}
        await self.cluster.client.patch(SETS, self.name, body, self.cluster.namespace)

    async def scale(self, replicas: int) -> None:
        """Scale the set."""
        await self.cluster.scale(SETS, self.name, replicas)

    async def wait_until_updated(self, replicas: int) -> Any:
        """Wait until the set is completely updated and the history has it; returns its status."""

        async def condition() -> bool:
            found = await self.cluster.get(SETS, self.name)
            status = found["status"]
            ended = status.get("updateProgress", {}).get("updateEndedAt")
            message = status.get("observedGeneration") == found["metadata"]["generation"]
            counts = (status.get("updatedReplicas"), status.get("availableReplicas"))
            return bool(ended) and message and counts == (replicas, replicas)

        await self.cluster.wait_until(condition)
        await self.history.wait_until_current()
        return await self.get_status()

    async def cordon_all_nodes(self) -> None:
        """Cordon all nodes, so that the next actions happen during the update."""
        await self.cluster.uncordon_nodes(0)

    async def uncordon_all_nodes(self) -> None:
        await self.cluster.uncordon_nodes(len(self.cluster.nodes))


@asynccontextmanager
async def running_set(
    api: ScenarioApi,
    manifest: str,
    pods: int,
    *,
    change: Callable[[Any], None] | None = None,
    **spec: Any,
) -> AsyncGenerator[UpdateScenario]:
    """A set of a manifest, changed by a function if one is given, all of its pods ready."""
    nodes = [NodeGroup(f"{api.namespace}-n", 2, memory="64Gi", start="10ms", stop="10ms")]
    async with (
        scenario_cluster(api, node_groups=nodes, free_nodes=2) as cluster,
        pod_history(cluster) as history,
    ):
        body = load_set(manifest)
        if change is not None:
            change(body)
        await cluster.apply(body, **spec)
        await history.wait_until_ready(pods)
        name = body["metadata"]["name"]

        async def available() -> bool:
            status = (await cluster.get(SETS, name)).get("status", {})
            wanted = body["spec"]["replicas"] if "replicas" not in spec else spec["replicas"]
            return status.get("availableReplicas") == wanted

        await cluster.wait_until(available)
        history.reset()
        yield UpdateScenario(cluster, history, name)


def by_clique(pod: PodRecord) -> Hashable:
    return pod.clique


def by_group_replica(pod: PodRecord) -> Hashable:
    return pod.replica, pod.group_replica


def by_replica(pod: PodRecord) -> Hashable:
    return pod.replica


def max_incomplete(
    snapshots: Iterable[PodSnapshot],
    size: int,
    by: Callable[[PodRecord], Hashable],
    among: Callable[[PodRecord], bool] = lambda _: True,
) -> int:
    """The maximum number of groups of pods that lacked ready pods at one time.

    `size` is the number of ready pods of each; those of the first snapshot are considered.
    """
    first, *rest = snapshots
    things = {by(each) for each in first if among(each)}
    worst = 0
    for moment in rest:
        ready = Counter(by(each) for each in moment if each.ready and among(each))
        worst = max(worst, sum(ready[each] < size for each in things))
    return worst


def min_ready(snapshots: Iterable[PodSnapshot], clique: str) -> int:
    """The minimum number of ready pods of a clique."""
    return min(sum(each.ready and each.clique == clique for each in moment) for moment in snapshots)


def list_deletion_order(
    deleted: Iterable[PodRecord], by: Callable[[PodRecord], Hashable]
) -> list[Hashable]:
    """The order in which groups of pods were deleted; a repeated one was resumed later."""
    found: list[Hashable] = []
    for each in map(by, deleted):
        if not found or found[-1] != each:
            found.append(each)
    return found
