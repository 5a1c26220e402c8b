"""Cliques that finish: work that ends well, work that fails for good, and what remains of it."""

from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.local.nodes.lives import EXIT_CODE, RUN_SECONDS
from tests.conftest import Api
from tests.workloads.ground import CLIQUES, GANGS, PODS, SETS
from tests.workloads.scenarios.waiting import conditions_of
from tests.workloads.scenarios.world import World, world


def job(
    *cliques: JsonObject, groups: list[JsonObject] | None = None, **template: Any
) -> JsonObject:
    body: JsonObject = {"cliques": list(cliques), **template}
    if groups:
        body["podCliqueScalingGroups"] = groups
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "job"},
        "spec": {"replicas": 1, "template": body},
    }


def work(
    name: str, replicas: int = 1, *, policy: str = "Never", seconds: str = "0.1", code: int = 0
) -> JsonObject:
    """A clique whose pods run for a while and end with a code."""
    container = {"name": "main", "image": "busybox:1.37", "command": ["true"]}
    return {
        "name": name,
        "annotations": {RUN_SECONDS: seconds, EXIT_CODE: str(code)},
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "podSpec": {"restartPolicy": policy, "containers": [container]},
        },
    }


async def until_condition(stage: World, kind: Any, name: str, condition: str) -> Any:
    async def so() -> bool:
        found = await stage.get(kind, name)
        return bool(found and found.get("status")) and (
            conditions_of(found).get(condition) == "True"
        )

    await stage.until(so)
    return await stage.get(kind, name)


async def until_phase(stage: World, gang: str, phase: str) -> None:
    async def so() -> bool:
        found = await stage.get(GANGS, gang)
        return found is not None and found.get("status", {}).get("phase") == phase

    await stage.until(so)


async def phases(stage: World) -> list[str]:
    return sorted(each["status"]["phase"] for each in await stage.all(PODS))


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_work_that_ends_well_is_complete_and_stays(api: Api, policy: str) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a", 2, policy=policy), work("b", policy=policy)))
        await until_condition(stage, SETS, "job", "Complete")
        for clique in ("job-0-a", "job-0-b"):
            await until_condition(stage, CLIQUES, clique, "Complete")
        await until_phase(stage, "job-0", "Succeeded")
        await stage.until_settled()
        assert await phases(stage) == ["Succeeded"] * 3
        assert "Failed" not in conditions_of(await stage.get(SETS, "job"))


async def test_set_is_complete_only_when_every_clique_is(api: Api) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("short"), work("long", seconds="3600")))
        await until_condition(stage, CLIQUES, "job-0-short", "Complete")
        await stage.until_settled()
        found = await stage.get(SETS, "job")
        assert conditions_of(found).get("Complete") != "True"
        assert await phases(stage) == ["Running", "Succeeded"]


async def test_work_that_fails_is_tried_again_until_it_has_failed_for_good(api: Api) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a", code=3), backoffLimit=2))
        await until_condition(stage, CLIQUES, "job-0-a", "Failed")
        await until_condition(stage, SETS, "job", "Failed")
        await until_phase(stage, "job-0", "Failed")
        await stage.until_settled()
        assert await phases(stage) == ["Failed"] * 3
        assert len({each["spec"]["hostname"] for each in await stage.all(PODS)}) == 1


async def test_pods_that_failed_and_are_cleared_away_let_the_work_go_on(api: Api) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a", code=1), backoffLimit=0))
        await until_condition(stage, SETS, "job", "Failed")
        (failed,) = await stage.all(PODS)
        await stage.client.delete(PODS, failed["metadata"]["name"], stage.namespace)

        async def tried_again() -> bool:
            uids = {each["metadata"]["uid"] for each in await stage.all(PODS)}
            return bool(uids) and failed["metadata"]["uid"] not in uids

        await stage.until(tried_again)


async def test_work_of_scaled_gangs_completes_too(api: Api) -> None:
    group = {"name": "team", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a"), work("b", 2), groups=[group]))
        await until_condition(stage, SETS, "job", "Complete")
        await until_phase(stage, "job-0-team-0", "Succeeded")
        assert await phases(stage) == ["Succeeded"] * 5


async def test_finished_set_goes_after_its_time(api: Api) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a"), ttlSecondsAfterFinished=1))
        await until_condition(stage, SETS, "job", "Complete")

        async def nothing_left() -> bool:
            return await stage.left() == []

        await stage.until(nothing_left)


async def test_pod_that_should_run_for_ever_is_made_anew_when_it_fails(api: Api) -> None:
    async with world(api, nodes=5, free=5) as stage:
        await stage.apply(job(work("a", policy="Always", seconds="3600")))
        await stage.until_running(1)
        (pod,) = await stage.pods()
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await stage.client.patch(
            PODS, pod["metadata"]["name"], evicted, stage.namespace, subresource="status"
        )

        async def replaced() -> bool:
            found = await stage.running()
            return bool(found) and all(
                each["metadata"]["uid"] != pod["metadata"]["uid"] for each in found
            )

        await stage.until(replaced)
        assert len(await stage.all(PODS)) == 1
