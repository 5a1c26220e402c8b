"""Updates of whole sets on an embedded cluster, with people interfering."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, StrategyType, UpdateStrategy
from kilonova.kube import PatchKind
from tests.local.embedded_cluster import eventually, settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.ground import CLIQUES, NAMESPACE, PODS, REVISIONS, SETS, Ground, ground
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


def system(
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
async def a_system(replicas: int, **rolling: Any) -> AsyncGenerator[Ground]:
    """A set at version 1, all of it available."""
    async with ground() as place, operating(place.cluster):
        await place.apply(system(replicas, "1", **rolling))
        await place.until(lambda status: status.get("availableReplicas") == replicas)
        yield place


class Watcher:
    """Looks all the time how many replicas have all of their pods ready."""

    def __init__(self, place: Ground) -> None:
        self.least = 1000
        self.most_replicas = 0
        self.versions: set[frozenset[str]] = set()
        """Versions that were ready at the same time in one replica."""
        self._place = place

    async def run(self) -> None:
        while True:
            ready = defaultdict[str, list[str]](list)
            there = set[str]()
            for pod in await self._place.all(PODS):
                index = pod["metadata"]["labels"][names.SET_REPLICA_INDEX]
                there.add(index)
                if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                    ready[index].append(version_of(pod))
            self.least = min(self.least, sum(len(each) == 3 for each in ready.values()))
            self.most_replicas = max(self.most_replicas, len(there))
            self.versions |= {frozenset(each) for each in ready.values()}
            await asyncio.sleep(0.1)


@asynccontextmanager
async def watching(place: Ground) -> AsyncGenerator[Watcher]:
    watcher = Watcher(place)
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.wait({task})


def is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def version_of(pod: Any) -> str:
    return pod["metadata"]["annotations"]["version"]


def has_ended(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def turns(status: Any) -> list[int]:
    progress = status.get("updateProgress", {})
    return [each["replicaIndex"] for each in progress.get("currentlyUpdating", ())]


async def update_to(place: Ground, replicas: int, version: str, **rolling: Any) -> Any:
    """Edit, and wait for the end of the update to that."""
    before = (await place.status()).get("updateProgress", {}).get("updateStartedAt")
    await asyncio.sleep(1)
    await place.apply(system(replicas, version, **rolling))
    return await place.until(
        lambda each: (
            has_ended(each)
            and each["updateProgress"]["updateStartedAt"] != before
            and each["updatedReplicas"] == replicas
        ),
        within=600,
    )


async def all_pods_are(place: Ground, version: str, count: int) -> None:
    async def so() -> bool:
        pods = await place.all(PODS)
        return len(pods) == count and {version_of(each) for each in pods} <= {version}

    await eventually(so)


async def test_one_replica_at_a_time_is_updated_and_all_others_stay_available() -> None:
    async with a_system(3) as place, watching(place) as watcher:
        status = await update_to(place, 3, "2")
        await all_pods_are(place, "2", 9)
        assert watcher.least == 2
        progress = status["updateProgress"]
        assert progress["updatedPodCliquesCount"] == progress["totalPodCliquesCount"] == 6
        assert turns(status) == []
        assert len(await place.names(REVISIONS)) == 2


async def test_max_unavailable_replicas_are_updated_together() -> None:
    async with a_system(4, max_unavailable="50%") as place, watching(place) as watcher:
        await update_to(place, 4, "2", max_unavailable="50%")
        await all_pods_are(place, "2", 12)
        assert watcher.least == 2


async def test_surge_lets_no_replica_be_missing() -> None:
    how = {"max_surge": 1, "max_unavailable": 0}
    async with a_system(2, **how) as place, watching(place) as watcher:
        await update_to(place, 2, "2", **how)
        await all_pods_are(place, "2", 6)
        assert (watcher.least, watcher.most_replicas) == (2, 3)


async def test_coherent_update_never_mixes_versions_in_a_replica() -> None:
    async with a_system(2, coherent=True) as place, watching(place) as watcher:
        await update_to(place, 2, "2", coherent=True)
        await all_pods_are(place, "2", 6)
        assert watcher.least == 1
        assert watcher.versions <= {frozenset("1"), frozenset("2")}


async def test_edit_in_an_update_leads_to_the_newest_and_not_through_the_one_between() -> None:
    async with a_system(3) as place, watching(place) as watcher:
        await place.apply(system(3, "2"))
        await place.until(lambda status: turns(status) == [0])
        await place.apply(system(3, "3"))
        await place.until(has_ended, within=600)
        await all_pods_are(place, "3", 9)
        assert watcher.least >= 2
        assert not any("2" in each and "3" in each for each in watcher.versions if len(each) > 2)


async def test_edit_taken_back_ends_where_it_began() -> None:
    async with a_system(3) as place:
        first = (await place.status())["currentGenerationHash"]
        before = {each["metadata"]["uid"]: each for each in await place.all(PODS)}
        await place.apply(system(3, "2"))
        await place.until(lambda status: turns(status) == [0])
        await place.apply(system(3, "1"))
        status = await place.until(has_ended, within=600)
        await all_pods_are(place, "1", 9)
        assert status["currentGenerationHash"] == first
        kept = {each["metadata"]["uid"] for each in await place.all(PODS)} & before.keys()
        indexes = {before[uid]["metadata"]["labels"][names.SET_REPLICA_INDEX] for uid in kept}
        assert {"1", "2"} <= indexes
        assert len(await place.names(REVISIONS)) == 2


@pytest.mark.parametrize("replicas", [5, 1, 0])
async def test_scale_in_an_update(replicas: int) -> None:
    async with a_system(3) as place:
        await place.apply(system(3, "2"))
        await place.until(lambda status: turns(status) == [1], within=600)
        await place.client.set_scale(SETS, "sys", NAMESPACE, replicas)
        await place.until(has_ended, within=600)
        await place.until(lambda status: status["availableReplicas"] == replicas)
        await all_pods_are(place, "2", replicas * 3)


async def test_on_delete_leaves_pods_until_somebody_deletes_them() -> None:
    async with a_system(2, strategy="OnDelete") as place:
        status = await update_to_on_delete(place, "2")
        progress = status["updateProgress"]
        assert progress["updateStartedAt"] == progress["updateEndedAt"]
        await settle(30)
        pods = await place.all(PODS)
        assert {version_of(each) for each in pods} == {"1"}
        assert (await place.status())["updatedReplicas"] == 0
        victim = pods[0]["metadata"]["name"]
        await place.client.delete(PODS, victim, NAMESPACE)
        await eventually(lambda: has_versions(place, ["1"] * 5 + ["2"]))
        await place.apply(system(2, "2"))
        await place.until(lambda each: has_ended(each) and each["updatedReplicas"] == 2)
        await all_pods_are(place, "2", 6)


async def update_to_on_delete(place: Ground, version: str) -> Any:
    await place.apply(system(2, version, "OnDelete"))
    return await place.until(has_ended)


async def has_versions(place: Ground, versions: list[str]) -> bool:
    pods = [each for each in await place.all(PODS) if is_ready(each)]
    return sorted(map(version_of, pods)) == versions


async def test_switch_to_on_delete_stops_an_update() -> None:
    async with a_system(3) as place:
        await place.apply(system(3, "2"))
        await place.until(lambda status: turns(status) == [1], within=600)
        await place.apply(system(3, "2", "OnDelete"))
        await place.until(has_ended)
        await settle(60)
        found = [
            each
            for each in await place.all(PODS)
            if _index(each) == "2" and version_of(each) == "1"
        ]
        assert len(found) == 3


def _index(pod: Any) -> str:
    return pod["metadata"]["labels"][names.SET_REPLICA_INDEX]


async def test_stuck_update_takes_no_second_replica_and_an_edit_gets_it_out() -> None:
    async with a_system(3, progress_deadline="60s") as place:
        stuck = system(3, "2", progress_deadline="60s")
        broken = pod_template(nodeSelector={"no": "such"}, terminationGracePeriodSeconds=1)
        first, *others = stuck.spec.template.cliques
        fields = [clique("front", 1, pod_spec=broken, annotations={"version": "2"}), *others]
        await place.apply(
            pod_clique_set(*fields, replicas=3, update_strategy=stuck.spec.update_strategy)
        )
        assert first.name == "front"
        await place.until(lambda status: turns(status) == [0])
        await settle(90)
        status = await place.status()
        assert turns(status) == [0]
        assert status["availableReplicas"] == 2
        [condition] = [each for each in status["conditions"] if each["type"] == "UpdateInProgress"]
        assert (condition["status"], condition["reason"]) == (
            "Unknown",
            "ProgressDeadlineExceeded",
        )
        await place.apply(system(3, "3", progress_deadline="60s"))
        await place.until(has_ended, within=600)
        await all_pods_are(place, "3", 9)


async def test_scale_of_a_clique_by_hand_survives_an_update() -> None:
    async with a_system(2) as place:
        await place.client.set_scale(CLIQUES, "sys-0-worker", NAMESPACE, 4)
        await eventually(lambda: has_versions(place, ["1"] * 8))
        await update_to(place, 2, "2")
        await all_pods_are(place, "2", 8)


async def test_label_of_a_template_alone_is_an_update_too() -> None:
    async with a_system(1) as place:
        body = [{"op": "add", "path": "/spec/template/cliques/0/labels", "value": {"team": "blue"}}]
        await place.client.patch(SETS, "sys", body, NAMESPACE, kind=PatchKind.JSON)
        await place.until(has_ended)

        async def is_blue() -> bool:
            pods = await place.all(PODS)
            blue = [each for each in pods if each["metadata"]["labels"].get("team") == "blue"]
            return len(pods) == 3 and len(blue) == 1

        await eventually(is_blue)
