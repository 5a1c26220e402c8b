"""Cliques that run to completion: success, failure, and what remains."""

from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import Reflector
from kilonova.local.simnodes.pods.lifecycle import EXIT_CODE_ANNOTATION, RUN_SECONDS_ANNOTATION
from tests.workloads.scenarios.support.gang_checks import get_conditions
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import CLIQUES, GANGS, PODS, SETS, run_runnables


def build_job_set(
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


def build_job_clique(
    name: str, replicas: int = 1, *, policy: str = "Never", seconds: str = "0.1", code: int = 0
) -> JsonObject:
    """A clique whose pods run for a while and end with a code."""
    container = {"name": "main", "image": "busybox:1.37", "command": ["true"]}
    return {
        "name": name,
        "annotations": {RUN_SECONDS_ANNOTATION: seconds, EXIT_CODE_ANNOTATION: str(code)},
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "podSpec": {"restartPolicy": policy, "containers": [container]},
        },
    }


async def wait_for_condition(cluster: ScenarioCluster, kind: Any, name: str, condition: str) -> Any:
    async def is_true() -> bool:
        found = await cluster.get(kind, name)
        return bool(found and found.get("status")) and (
            get_conditions(found).get(condition) == "True"
        )

    await cluster.wait_until(is_true)
    return await cluster.get(kind, name)


async def until_phase(cluster: ScenarioCluster, gang: str, phase: str) -> None:
    async def condition() -> bool:
        found = await cluster.get(GANGS, gang)
        return found is not None and found.get("status", {}).get("phase") == phase

    await cluster.wait_until(condition)


async def phases(cluster: ScenarioCluster) -> list[str]:
    return sorted(each["status"]["phase"] for each in await cluster.list_objects(PODS))


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_successful_clique_is_complete_and_stays(api: ScenarioApi, policy: str) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(
            build_job_set(
                build_job_clique("a", 2, policy=policy), build_job_clique("b", policy=policy)
            )
        )
        await wait_for_condition(cluster, SETS, "job", "Complete")
        for clique in ("job-0-a", "job-0-b"):
            await wait_for_condition(cluster, CLIQUES, clique, "Complete")
        await until_phase(cluster, "job-0", "Succeeded")
        await cluster.wait_until_settled()
        assert await phases(cluster) == ["Succeeded"] * 3
        assert "Failed" not in get_conditions(await cluster.get(SETS, "job"))


async def test_set_is_complete_only_when_every_clique_is(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(
            build_job_set(build_job_clique("short"), build_job_clique("long", seconds="3600"))
        )
        await wait_for_condition(cluster, CLIQUES, "job-0-short", "Complete")
        await cluster.wait_until_settled()
        found = await cluster.get(SETS, "job")
        assert get_conditions(found).get("Complete") != "True"
        assert await phases(cluster) == ["Running", "Succeeded"]


async def test_failed_pods_are_retried_until_the_backoff_limit(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(build_job_set(build_job_clique("a", code=3), backoffLimit=2))
        await wait_for_condition(cluster, CLIQUES, "job-0-a", "Failed")
        await wait_for_condition(cluster, SETS, "job", "Failed")
        await until_phase(cluster, "job-0", "Failed")
        await cluster.wait_until_settled()
        assert await phases(cluster) == ["Failed"] * 3
        assert len({each["spec"]["hostname"] for each in await cluster.list_objects(PODS)}) == 1


async def test_deleting_failed_pods_allows_further_attempts(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(build_job_set(build_job_clique("a", code=1), backoffLimit=0))
        await wait_for_condition(cluster, SETS, "job", "Failed")
        (failed,) = await cluster.list_objects(PODS)
        await cluster.client.delete(PODS, failed["metadata"]["name"], cluster.namespace)

        async def tried_again() -> bool:
            uids = {each["metadata"]["uid"] for each in await cluster.list_objects(PODS)}
            return bool(uids) and failed["metadata"]["uid"] not in uids

        await cluster.wait_until(tried_again)


async def test_scaled_gangs_complete_too(api: ScenarioApi) -> None:
    group = {"name": "team", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(
            build_job_set(build_job_clique("a"), build_job_clique("b", 2), groups=[group])
        )
        await wait_for_condition(cluster, SETS, "job", "Complete")
        await until_phase(cluster, "job-0-team-0", "Succeeded")
        assert await phases(cluster) == ["Succeeded"] * 5


async def test_finished_set_is_deleted_after_its_ttl(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        reflector = Reflector(cluster.client, SETS, api.namespace)
        # Seen by a watch: the set is there for at most a second more.
        completed: list[bool] = []

        def record_completion(_: Any, new: Any) -> None:
            if new is not None and new.get("status"):
                completed.append(get_conditions(new).get("Complete") == "True")

        reflector.store.add_event_handler(record_completion)
        async with run_runnables([reflector], []):
            await reflector.wait_for_sync()
            await cluster.apply(build_job_set(build_job_clique("a"), ttlSecondsAfterFinished=1))

            async def is_gone() -> bool:
                return any(completed) and await cluster.list_remaining_objects() == []

            await cluster.wait_until(is_gone)


async def test_failed_pod_with_restart_policy_always_is_recreated(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=5, free_nodes=5) as cluster:
        await cluster.apply(build_job_set(build_job_clique("a", policy="Always", seconds="3600")))
        await cluster.wait_until_running(1)
        (pod,) = await cluster.list_pods()
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await cluster.client.patch(
            PODS, pod["metadata"]["name"], evicted, cluster.namespace, subresource="status"
        )

        async def replaced() -> bool:
            found = await cluster.list_ready_pods()
            return bool(found) and all(
                each["metadata"]["uid"] != pod["metadata"]["uid"] for each in found
            )

        await cluster.wait_until(replaced)
        assert len(await cluster.list_objects(PODS)) == 1
