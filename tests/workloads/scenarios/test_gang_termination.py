"""GT: a gang that has lacked pods for too long is started anew, and no more than that."""

from datetime import timedelta
from typing import Any

from kilonova.api.times import parse_time
from tests.conftest import Api
from tests.workloads.ground import CLIQUES, GROUPS, PODS
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.waiting import (
    clique_of,
    conditions_of,
    still,
    until_breached,
    until_gangs_run,
)
from tests.workloads.scenarios.world import World, world

DELAY = timedelta(seconds=1)

Pods = dict[str, Any]
"""By uid."""


async def started(stage: World, manifest: str) -> Pods:
    """All ten pods of a set, on all the nodes that there are."""
    body = set_of(manifest)
    body["spec"]["template"]["terminationDelay"] = "1s"
    await stage.apply(body)
    await stage.until_running(10)
    await stage.until_settled()
    return await pods_now(stage)


async def pods_now(stage: World) -> Pods:
    return {each["metadata"]["uid"]: each for each in await stage.pods()}


def of_clique(pods: Pods, *prefixes: str) -> Pods:
    """Those of cliques whose names begin so."""
    return {uid: each for uid, each in pods.items() if clique_of(each).startswith(prefixes)}


async def close(stage: World, pods: Pods) -> None:
    """Let no other pods on to the nodes of these."""
    for each in pods.values():
        await stage.cordon(each["spec"]["nodeName"])


async def lose(stage: World, *pods: Any) -> None:
    """Delete pods whose nodes take no others."""
    await close(stage, {each["metadata"]["uid"]: each for each in pods})
    for each in pods:
        await stage.client.delete(PODS, each["metadata"]["name"], stage.namespace)


async def until_anew(stage: World, old: Pods) -> None:
    """Wait until all of these pods are gone, and there are ten again."""

    async def so() -> bool:
        pods = await pods_now(stage)
        return len(pods) == 10 and not pods.keys() & old.keys()

    await stage.until(so)


async def until_terminating(stage: World, group: str) -> None:
    """Wait until a group says that it is being started anew with all of its replica."""

    async def so() -> bool:
        told = conditions_of(await stage.get(GROUPS, group))
        return told.get("GangTerminationInProgress") == "True"

    await stage.until(so)


async def waited(stage: World, clique: str) -> bool:
    """Whether a clique that lacks pods had time to get them before it was started anew."""
    found = await stage.get(CLIQUES, clique)
    (since,) = [
        parse_time(each["lastTransitionTime"])
        for each in found["status"]["conditions"]
        if each["type"] == "MinAvailableBreached"
    ]
    made = [parse_time(each["metadata"]["creationTimestamp"]) for each in await stage.pods(clique)]
    return min(made) - since >= DELAY


async def comes_back(stage: World, *gangs: str) -> None:
    """See all run again once all nodes may be used, with nothing left to tell."""
    await stage.free(10)
    await stage.until_running(10)
    await until_gangs_run(stage, *gangs)

    async def told() -> bool:
        (group,) = await stage.all(GROUPS)
        return "GangTerminationInProgress" not in conditions_of(group)

    await stage.until(told)


async def test_gt1_a_clique_that_lacks_a_pod_takes_its_replica_along(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload1-gt-0"
        before = await started(stage, "workload1-gt")
        clique = of_clique(before, f"{name}-pc-a")
        await lose(stage, next(iter(clique.values())))
        await until_anew(stage, before)
        # Nine nodes are too few for it, for as long as that takes: it is not started anew again.
        anew = await pods_now(stage)
        await still(stage, running=0, waiting=10)
        assert anew.keys() == (await pods_now(stage)).keys()
        assert await waited(stage, f"{name}-pc-a")
        await until_terminating(stage, f"{name}-sg-x")
        await comes_back(stage, name)
        assert anew.keys() == (await pods_now(stage)).keys()


async def test_gt2_a_member_that_lacks_a_pod_takes_its_replica_along(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload1-gt-0"
        before = await started(stage, "workload1-gt")
        member = of_clique(before, f"{name}-sg-x-0-pc-c")
        await lose(stage, next(iter(member.values())))
        await until_anew(stage, before)
        await still(stage, running=0, waiting=10)
        assert await waited(stage, f"{name}-sg-x-0-pc-c")
        await until_terminating(stage, f"{name}-sg-x")
        await comes_back(stage, name)


async def test_gt3_a_spare_pod_may_be_lost_and_the_last_one_not(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload2-gt-0"
        before = await started(stage, "workload2-gt")
        first, second = of_clique(before, f"{name}-pc-a").values()
        await lose(stage, first)
        await still(stage, running=9, waiting=1)
        after = await pods_now(stage)
        assert before.keys() - after.keys() == {first["metadata"]["uid"]}
        await until_breached(stage, f"{name}-pc-a", "False")
        await lose(stage, second)
        await until_breached(stage, f"{name}-pc-a")
        await until_anew(stage, after)
        await comes_back(stage, name, f"{name}-sg-x-0")


async def test_gt4_one_lost_replica_of_a_group_starts_anew_alone_and_the_last_does_not(
    api: Api,
) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload2-gt-0"
        before = await started(stage, "workload2-gt")
        lost = of_clique(before, f"{name}-sg-x-0-")
        kept = before.keys() - lost.keys()
        await close(stage, lost)
        await lose(stage, *of_clique(lost, f"{name}-sg-x-0-pc-b").values())
        await until_anew(stage, lost)
        await still(stage, running=6, waiting=4)
        after = await pods_now(stage)
        assert kept < after.keys()
        group = await stage.get(GROUPS, f"{name}-sg-x")
        assert "GangTerminationInProgress" not in conditions_of(group)
        await lose(stage, *of_clique(before, f"{name}-sg-x-1-").values())
        await until_anew(stage, after)
        await until_terminating(stage, f"{name}-sg-x")
        await comes_back(stage, name, f"{name}-sg-x-0")


async def test_gt5_a_member_that_needs_all_its_pods_takes_its_group_replica_along(
    api: Api,
) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload5-gt-0"
        before = await started(stage, "workload5-gt")
        lost = of_clique(before, f"{name}-sg-x-1-")
        member = of_clique(lost, f"{name}-sg-x-1-pc-c")
        await lose(stage, next(iter(member.values())))
        await until_anew(stage, lost)
        await still(stage, running=6, waiting=4)
        assert before.keys() - (await pods_now(stage)).keys() == lost.keys()
        assert await waited(stage, f"{name}-sg-x-1-pc-c")
        await comes_back(stage, name, f"{name}-sg-x-0")
        assert before.keys() - (await pods_now(stage)).keys() == lost.keys()


async def test_gt6_a_deleted_pod_of_a_scaled_gang_is_made_again_and_that_is_all(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        name = "workload2-gt-0"
        before = await started(stage, "workload2-gt")
        pod = next(iter(of_clique(before, f"{name}-sg-x-1-pc-c").values()))
        await stage.client.delete(PODS, pod["metadata"]["name"], stage.namespace)
        await until_anew(stage, {pod["metadata"]["uid"]: pod})
        await comes_back(stage, name, f"{name}-sg-x-0")
        await stage.until_settled()
        assert before.keys() - (await pods_now(stage)).keys() == {pod["metadata"]["uid"]}
