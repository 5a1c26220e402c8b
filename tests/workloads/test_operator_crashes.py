"""An operator that dies between any two of its writes, and another that goes on."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove.podcliqueset import IN_ORDER
from kilonova.local.cluster import Cluster
from tests.local.embedded_cluster import NODES, eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import CHILDREN, NAMESPACE, PODS, REVISIONS, SETS, Ground, ground
from tests.workloads.mortal import mortal_operator, starts_anew
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def mortal_operators(cluster: Cluster, writes: int) -> AsyncGenerator[list[int]]:
    """One operator after another, each of which dies after so many writes; how many there were."""
    lives = [0]
    task = asyncio.create_task(_live_and_die(cluster, writes, lives))
    try:
        yield lives
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _live_and_die(cluster: Cluster, writes: int, lives: list[int]) -> None:
    while True:
        lives[0] += 1
        # Half of the operators lose their last write; none would get anywhere with only that.
        arrives = writes == 1 or lives[0] % 2 == 0
        async with mortal_operator(cluster, writes, last_arrives=arrives) as died:
            await died.wait()


def system(replicas: int, version: str) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec, annotations={"version": version}),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
    )


async def names_of(place: Ground) -> dict[str, list[str]]:
    return {
        each.plural: await place.names(each) for each in CHILDREN if each not in (PODS, REVISIONS)
    }


@pytest.mark.parametrize("writes", [1, 2, 3, 7, 20])
async def test_whatever_write_is_the_last_the_end_is_the_same(writes: int) -> None:
    async with ground() as place, mortal_operators(place.cluster, writes) as lives:
        await place.apply(system(2, "1"))
        await eventually(all_ready(place, 2, 10), within=600)
        await place.apply(system(2, "2"))
        await eventually(all_ready(place, 2, 10, fronts={"2"}), within=600)
        await place.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await eventually(all_ready(place, 1, 5, fronts={"2"}), within=600)
        assert await names_of(place) == {
            "podcliques": ["sys-0-front", "sys-0-team-0-hand", "sys-0-team-1-hand"],
            "podcliquescalinggroups": ["sys-0-team"],
            "podgangs": ["sys-0", "sys-0-team-0"],
            "services": ["kubernetes", "sys-0"],
            "horizontalpodautoscalers": [],
            "resourceclaims": [],
        }
        await place.client.delete(SETS, "sys", NAMESPACE)

        async def is_empty() -> bool:
            return await place.left() == []

        await eventually(is_empty, within=600)
        await settle(60)
        assert await place.left() == []
        assert lives[0] > 60 / writes


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_restart_that_a_crash_cuts_short_is_done_to_its_end(writes: int) -> None:
    spec = pod_template(terminationGracePeriodSeconds=1)
    set_ = pod_clique_set(
        *(clique(name, pod_spec=spec) for name in "abc"), startup=IN_ORDER, termination_delay="10s"
    )
    async with ground() as place:
        anew = mortal_operator(place.cluster, writes, last_arrives=True, counts=starts_anew)
        async with anew as died:
            await place.apply(set_)
            await eventually(all_ready(place, 1, 3))
            before = {each["metadata"]["uid"] for each in await place.all(PODS)}
            await no_room(place, True)
            lost = next(each for each in await place.names(PODS) if each.startswith("sys-0-a-"))
            await place.client.delete(PODS, lost, NAMESPACE, grace=0)
            await asyncio.wait_for(died.wait(), 60)
        async with operating(place.cluster):
            await settle(5)
            await no_room(place, False)
            await eventually(all_ready(place, 1, 3))
            after = {each["metadata"]["uid"] for each in await place.all(PODS)}
            assert not before & after


async def no_room(place: Ground, closed: bool) -> None:
    """Have no node take a pod, or all again."""
    for node in await place.all(NODES):
        patch = {"spec": {"unschedulable": closed or None}}
        await place.client.patch(NODES, node["metadata"]["name"], patch)


def all_ready(
    place: Ground, replicas: int, pods: int, fronts: set[str] | None = None
) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        status = await place.status()
        found = await place.all(PODS)
        versions = {
            each["metadata"]["annotations"]["version"]
            for each in found
            if "version" in each["metadata"].get("annotations", {})
        }
        return (
            len(found) == pods
            and all(each["status"].get("phase") == "Running" for each in found)
            and status.get("availableReplicas") == status.get("replicas") == replicas
            and status.get("updatedReplicas") == replicas
            and (fronts is None or versions == fronts)
        )

    return holds
