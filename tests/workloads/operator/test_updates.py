"""Updates of whole sets on an embedded cluster, with interference by users."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, StrategyType, UpdateStrategy
from kilonova.kube import PatchType
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CLIQUES,
    CONTROLLER_REVISIONS,
    NAMESPACE,
    PODS,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time


def build_set(
    replicas: int, version: str, strategy: StrategyType = "RollingRecreate", **rolling: Any
) -> PodCliqueSet:
    """Replicas of a front and two workers."""

    def part(name: str, count: int) -> Any:
        spec = pod_template(terminationGracePeriodSeconds=1)
        return clique(name, count, pod_spec=spec, annotations={"version": version})

    return pod_clique_set(
        part("front", 1),
        part("worker", 2),
        replicas=replicas,
        update_strategy=UpdateStrategy(strategy, SetRollingUpdate(**rolling)),
    )


@asynccontextmanager
async def start_set(replicas: int, **rolling: Any) -> AsyncGenerator[WorkloadCluster]:
    """A set at version 1, all of it available."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_set(replicas, "1", **rolling))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == replicas)
        yield cluster


class UpdateWatcher:
    """Records continuously how many replicas have all pods ready."""

    def __init__(self, cluster: WorkloadCluster) -> None:
        self.min_ready = 1000
        self.max_replicas = 0
        self.versions: set[frozenset[str]] = set()
        """Versions that were ready at the same time in one replica."""
        self._cluster = cluster

    async def run(self) -> None:
        while True:
            ready = defaultdict[str, list[str]](list)
            there = set[str]()
            for pod in await self._cluster.list_objects(PODS):
                index = pod["metadata"]["labels"][names.SET_REPLICA_INDEX]
                there.add(index)
                if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                    ready[index].append(get_version(pod))
            self.min_ready = min(self.min_ready, sum(len(each) == 3 for each in ready.values()))
            self.max_replicas = max(self.max_replicas, len(there))
            self.versions |= {frozenset(each) for each in ready.values()}
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running_watcher(cluster: WorkloadCluster) -> AsyncGenerator[UpdateWatcher]:
    watcher = UpdateWatcher(cluster)
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.wait({task})


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def get_version(pod: Any) -> str:
    return pod["metadata"]["annotations"]["version"]


def is_update_done(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def list_updating_replicas(status: Any) -> list[int]:
    progress = status.get("updateProgress", {})
    return [each["replicaIndex"] for each in progress.get("currentlyUpdating", ())]


async def update_set(cluster: WorkloadCluster, replicas: int, version: str, **rolling: Any) -> Any:
    """Edit, and wait for the end of the update to that."""
    before = (await cluster.get_status()).get("updateProgress", {}).get("updateStartedAt")
    await asyncio.sleep(1)
    await cluster.apply(build_set(replicas, version, **rolling))
    return await cluster.wait_for_status(
        lambda each: (
            is_update_done(each)
            and each["updateProgress"]["updateStartedAt"] != before
            and each["updatedReplicas"] == replicas
        ),
        timeout=600,
    )


async def wait_until_all_pods_at(cluster: WorkloadCluster, version: str, count: int) -> None:
    async def condition() -> bool:
        pods = await cluster.list_objects(PODS)
        return len(pods) == count and {get_version(each) for each in pods} <= {version}

    await wait_for_condition(condition)


async def test_one_replica_at_a_time_is_updated_and_all_others_stay_available() -> None:
    async with start_set(3) as cluster, running_watcher(cluster) as watcher:
        status = await update_set(cluster, 3, "2")
        await wait_until_all_pods_at(cluster, "2", 9)
        assert watcher.min_ready == 2
        progress = status["updateProgress"]
        assert progress["updatedPodCliquesCount"] == progress["totalPodCliquesCount"] == 6
        assert list_updating_replicas(status) == []
        assert len(await cluster.list_names(CONTROLLER_REVISIONS)) == 2


async def test_max_unavailable_replicas_are_updated_together() -> None:
    async with start_set(4, max_unavailable="50%") as cluster, running_watcher(cluster) as watcher:
        await update_set(cluster, 4, "2", max_unavailable="50%")
        await wait_until_all_pods_at(cluster, "2", 12)
        assert watcher.min_ready == 2


async def test_surge_keeps_all_replicas_available() -> None:
    options = {"max_surge": 1, "max_unavailable": 0}
    async with start_set(2, **options) as cluster, running_watcher(cluster) as watcher:
        await update_set(cluster, 2, "2", **options)
        await wait_until_all_pods_at(cluster, "2", 6)
        assert (watcher.min_ready, watcher.max_replicas) == (2, 3)


async def test_coherent_update_never_mixes_versions_in_a_replica() -> None:
    async with start_set(2, coherent=True) as cluster, running_watcher(cluster) as watcher:
        await update_set(cluster, 2, "2", coherent=True)
        await wait_until_all_pods_at(cluster, "2", 6)
        assert watcher.min_ready == 1
        assert watcher.versions <= {frozenset("1"), frozenset("2")}


async def test_edit_during_an_update_skips_the_intermediate_revision() -> None:
    async with start_set(3) as cluster, running_watcher(cluster) as watcher:
        await cluster.apply(build_set(3, "2"))
        await cluster.wait_for_status(lambda status: list_updating_replicas(status) == [0])
        await cluster.apply(build_set(3, "3"))
        await cluster.wait_for_status(is_update_done, timeout=600)
        await wait_until_all_pods_at(cluster, "3", 9)
        assert watcher.min_ready >= 2
        assert not any("2" in each and "3" in each for each in watcher.versions if len(each) > 2)


async def test_rolled_back_edit_restores_the_old_revision() -> None:
    async with start_set(3) as cluster:
        first = (await cluster.get_status())["currentGenerationHash"]
        before = {each["metadata"]["uid"]: each for each in await cluster.list_objects(PODS)}
        await cluster.apply(build_set(3, "2"))
        await cluster.wait_for_status(lambda status: list_updating_replicas(status) == [0])
        await cluster.apply(build_set(3, "1"))
        status = await cluster.wait_for_status(is_update_done, timeout=600)
        await wait_until_all_pods_at(cluster, "1", 9)
        assert status["currentGenerationHash"] == first
        kept = {
            each["metadata"]["uid"] for each in await cluster.list_objects(PODS)
        } & before.keys()
        indexes = {before[uid]["metadata"]["labels"][names.SET_REPLICA_INDEX] for uid in kept}
        assert {"1", "2"} <= indexes
        assert len(await cluster.list_names(CONTROLLER_REVISIONS)) == 2


@pytest.mark.parametrize("replicas", [5, 1, 0])
async def test_scaling_during_an_update(replicas: int) -> None:
    async with start_set(3) as cluster:
        await cluster.apply(build_set(3, "2"))
        await cluster.wait_for_status(
            lambda status: list_updating_replicas(status) == [1], timeout=600
        )
        await cluster.client.set_scale(SETS, "sys", NAMESPACE, replicas)
        await cluster.wait_for_status(is_update_done, timeout=600)
        await cluster.wait_for_status(lambda status: status["availableReplicas"] == replicas)
        await wait_until_all_pods_at(cluster, "2", replicas * 3)


async def test_on_delete_leaves_pods_until_they_are_deleted() -> None:
    async with start_set(2, strategy="OnDelete") as cluster:
        status = await update_set_on_delete(cluster, "2")
        progress = status["updateProgress"]
        assert progress["updateStartedAt"] == progress["updateEndedAt"]
        await advance_time(30)
        pods = await cluster.list_objects(PODS)
        assert {get_version(each) for each in pods} == {"1"}
        assert (await cluster.get_status())["updatedReplicas"] == 0
        victim = pods[0]["metadata"]["name"]
        await cluster.client.delete(PODS, victim, NAMESPACE)
        await wait_for_condition(lambda: has_versions(cluster, ["1"] * 5 + ["2"]))
        await cluster.apply(build_set(2, "2"))
        await cluster.wait_for_status(
            lambda each: is_update_done(each) and each["updatedReplicas"] == 2
        )
        await wait_until_all_pods_at(cluster, "2", 6)


async def update_set_on_delete(cluster: WorkloadCluster, version: str) -> Any:
    await cluster.apply(build_set(2, version, "OnDelete"))
    return await cluster.wait_for_status(is_update_done)


async def has_versions(cluster: WorkloadCluster, versions: list[str]) -> bool:
    pods = [each for each in await cluster.list_objects(PODS) if is_ready(each)]
    return sorted(map(get_version, pods)) == versions


async def test_switch_to_on_delete_stops_an_update() -> None:
    async with start_set(3) as cluster:
        await cluster.apply(build_set(3, "2"))
        await cluster.wait_for_status(
            lambda status: list_updating_replicas(status) == [1], timeout=600
        )
        await cluster.apply(build_set(3, "2", "OnDelete"))
        await cluster.wait_for_status(is_update_done)
        await advance_time(60)
        found = [
            each
            for each in await cluster.list_objects(PODS)
            if _get_index(each) == "2" and get_version(each) == "1"
        ]
        assert len(found) == 3


def _get_index(pod: Any) -> str:
    return pod["metadata"]["labels"][names.SET_REPLICA_INDEX]


async def test_stuck_update_takes_no_second_replica_and_an_edit_resolves_it() -> None:
    async with start_set(3, progress_deadline="60s") as cluster:
        stuck = build_set(3, "2", progress_deadline="60s")
        broken = pod_template(nodeSelector={"no": "such"}, terminationGracePeriodSeconds=1)
        first, *others = stuck.spec.template.cliques
        fields = [clique("front", 1, pod_spec=broken, annotations={"version": "2"}), *others]
        await cluster.apply(
            pod_clique_set(*fields, replicas=3, update_strategy=stuck.spec.update_strategy)
        )
        assert first.name == "front"
        await cluster.wait_for_status(lambda status: list_updating_replicas(status) == [0])
        await advance_time(90)
        status = await cluster.get_status()
        assert list_updating_replicas(status) == [0]
        assert status["availableReplicas"] == 2
        [condition] = [each for each in status["conditions"] if each["type"] == "UpdateInProgress"]
        assert (condition["status"], condition["reason"]) == (
            "Unknown",
            "ProgressDeadlineExceeded",
        )
        await cluster.apply(build_set(3, "3", progress_deadline="60s"))
        await cluster.wait_for_status(is_update_done, timeout=600)
        await wait_until_all_pods_at(cluster, "3", 9)


async def test_scaled_clique_keeps_its_replicas_in_an_update() -> None:
    async with start_set(2) as cluster:
        await cluster.client.set_scale(CLIQUES, "sys-0-worker", NAMESPACE, 4)
        await wait_for_condition(lambda: has_versions(cluster, ["1"] * 8))
        await update_set(cluster, 2, "2")
        await wait_until_all_pods_at(cluster, "2", 8)


async def test_label_of_a_template_alone_is_an_update_too() -> None:
    async with start_set(1) as cluster:
        body = [{"op": "add", "path": "/spec/template/cliques/0/labels", "value": {"team": "blue"}}]
        await cluster.client.patch(SETS, "sys", body, NAMESPACE, patch_type=PatchType.JSON)
        await cluster.wait_for_status(is_update_done)

        async def is_blue() -> bool:
            pods = await cluster.list_objects(PODS)
            blue = [each for each in pods if each["metadata"]["labels"].get("team") == "blue"]
            return len(pods) == 3 and len(blue) == 1

        await wait_for_condition(is_blue)
