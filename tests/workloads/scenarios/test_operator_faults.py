"""Faults: objects are lost, users interfere, the operator crashes; the final state is the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.kube import Resource
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import NODES, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.crashing_operator import crashing_operator
from tests.workloads.running_operator import running_operator
from tests.workloads.scenarios.support.gang_checks import wait_until_gangs_run
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import (
    CHILDREN,
    CLIQUES,
    GANGS,
    NAMESPACE,
    PODS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

SET = "workload2"
GANGS_OF_SET = (f"{SET}-0", f"{SET}-0-sg-x-0")


async def start(cluster: ScenarioCluster) -> None:
    await cluster.apply(SET)
    await cluster.wait_until_running(10)
    await wait_until_gangs_run(cluster, *GANGS_OF_SET)
    await cluster.wait_until_settled()


async def until_all_but(cluster: ScenarioCluster, lost: set[str], count: int) -> None:
    """Wait until so many pods run, none of them one that was lost."""

    async def condition() -> bool:
        found = {each["metadata"]["uid"] for each in await cluster.list_ready_pods()}
        return len(found) == len(await cluster.list_pods()) == count and not found & lost

    await cluster.wait_until(condition)


async def test_deleted_pods_are_recreated_at_their_indexes(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=12, free_nodes=12) as cluster:
        await start(cluster)
        before = {each["spec"]["hostname"] for each in await cluster.list_pods()}
        lost = (await cluster.list_pods(f"{SET}-0-sg-x-1-pc-c"))[:2]
        for pod in lost:
            await cluster.client.delete(PODS, pod["metadata"]["name"], cluster.namespace)
        await until_all_but(cluster, {each["metadata"]["uid"] for each in lost}, 10)
        assert {each["spec"]["hostname"] for each in await cluster.list_pods()} == before
        await wait_until_gangs_run(cluster, *GANGS_OF_SET)


async def test_pods_of_a_lost_node_are_recreated_elsewhere(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=12, free_nodes=10) as cluster:
        await start(cluster)
        node = (await cluster.list_pods(f"{SET}-0-pc-a"))[0]["spec"]["nodeName"]
        await cluster.client.delete(NODES, node)
        lost: set[str] = set()
        for pod in await cluster.list_pods():
            if pod["spec"]["nodeName"] == node:
                lost.add(pod["metadata"]["uid"])
                # As Kubernetes' pod garbage collector, which does not run with these servers.
                await cluster.client.delete(
                    PODS, pod["metadata"]["name"], cluster.namespace, grace_period_seconds=0
                )
        assert lost
        for each in cluster.nodes:
            if each != node:
                await cluster.cordon(each, unschedulable=False)
        await until_all_but(cluster, lost, 10)
        assert node not in {each["spec"]["nodeName"] for each in await cluster.list_pods()}
        cluster.nodes.remove(node)


DELETED: list[tuple[Resource[Any], str]] = [
    (SERVICES, f"{SET}-0"),
    (GANGS, f"{SET}-0"),
    (GANGS, f"{SET}-0-sg-x-0"),
    (CLIQUES, f"{SET}-0-pc-a"),
    (CLIQUES, f"{SET}-0-sg-x-1-pc-c"),
    (SCALING_GROUPS, f"{SET}-0-sg-x"),
]


async def test_deleted_children_are_recreated(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=20) as cluster:
        await start(cluster)
        for kind, name in DELETED:
            before = (await cluster.get(kind, name))["metadata"]["uid"]
            await cluster.client.delete(kind, name, cluster.namespace)
            await until_new(cluster, kind, name, before)
        await cluster.wait_until_running(10)
        await wait_until_gangs_run(cluster, *GANGS_OF_SET)


async def until_new(cluster: ScenarioCluster, kind: Resource[Any], name: str, uid: str) -> None:
    async def condition() -> bool:
        found = await cluster.get(kind, name)
        return found is not None and found["metadata"]["uid"] != uid

    await cluster.wait_until(condition)


EDITS: list[tuple[Resource[Any], str, Any]] = [
    (SERVICES, f"{SET}-0", {"spec": {"selector": {"app": "other"}}}),
    (GANGS, f"{SET}-0", {"spec": {"podgroups": []}}),
    (GANGS, f"{SET}-0-sg-x-0", {"metadata": {"labels": {names.COMPONENT: "other"}}}),
    (CLIQUES, f"{SET}-0-pc-a", {"spec": {"minAvailable": 2}}),
    (CLIQUES, f"{SET}-0-sg-x-0-pc-c", {"spec": {"startsAfter": [f"{SET}-0-pc-a"]}}),
    (SCALING_GROUPS, f"{SET}-0-sg-x", {"spec": {"minAvailable": 2}}),
]


async def test_edited_children_are_reverted_and_no_pod_is_lost(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=12, free_nodes=12) as cluster:
        await start(cluster)
        pods = {each["metadata"]["uid"] for each in await cluster.list_pods()}
        for kind, name, patch in EDITS:
            before = await cluster.get(kind, name)
            await cluster.client.patch(kind, name, patch, cluster.namespace)
            await until_same(cluster, kind, before)
        await cluster.wait_until_settled()
        assert {each["metadata"]["uid"] for each in await cluster.list_ready_pods()} == pods


async def until_same(cluster: ScenarioCluster, kind: Resource[Any], before: Any) -> None:
    async def condition() -> bool:
        found = await cluster.get(kind, before["metadata"]["name"])
        labels = found["metadata"]["labels"], before["metadata"]["labels"]
        return found["spec"] == before["spec"] and labels[0] == labels[1]

    await cluster.wait_until(condition)


async def test_changes_while_no_operator_runs_are_reconciled(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=20) as cluster:
        await start(cluster)
        await cluster.stop_operator()
        await cluster.scale(SCALING_GROUPS, f"{SET}-0-sg-x", 3)
        await cluster.scale(CLIQUES, f"{SET}-0-pc-a", 3)
        (first, *_) = await cluster.list_pods(f"{SET}-0-sg-x-0-pc-c")
        await cluster.client.delete(PODS, first["metadata"]["name"], cluster.namespace)
        await cluster.client.delete(SERVICES, f"{SET}-0", cluster.namespace)
        await cluster.start_operator()
        await until_all_but(cluster, {first["metadata"]["uid"]}, 15)
        await wait_until_gangs_run(cluster, *GANGS_OF_SET, f"{SET}-0-sg-x-1")
        assert await cluster.get(SERVICES, f"{SET}-0") is not None


# An operator that crashes, on the embedded cluster in virtual time.

Act = Callable[[WorkloadCluster], Awaitable[None]]
Check = Callable[[WorkloadCluster], Awaitable[bool]]
FEW_NODES = Fleet((NodeGroup("node", 2, start="100ms", stop="100ms"),))


def system(version: str = "1", replicas: int = 1) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec, annotations={"version": version}),
        clique("hand", pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
    )


async def do_nothing(_: WorkloadCluster) -> None:
    return


async def apply(cluster: WorkloadCluster) -> None:
    await cluster.apply(system())


async def update(cluster: WorkloadCluster) -> None:
    await cluster.apply(system("2"))


async def scale_in(cluster: WorkloadCluster) -> None:
    await cluster.client.set_scale(SCALING_GROUPS, "sys-0-team", NAMESPACE, 1)


async def delete(cluster: WorkloadCluster) -> None:
    await cluster.client.delete(SETS, "sys", NAMESPACE)


def is_whole(pods: int, version: str = "1") -> Check:
    async def holds(cluster: WorkloadCluster) -> bool:
        found, status = await cluster.list_objects(PODS), await cluster.get_status()
        fronts = [each for each in found if "front" in each["metadata"]["name"]]
        return (
            len(found) == pods
            and all(each["status"].get("phase") == "Running" for each in found)
            and [each["metadata"]["annotations"].get("version") for each in fronts] == [version]
            and status.get("availableReplicas") == status.get("updatedReplicas") == 1
            and len(await cluster.list_objects(CLIQUES)) == pods
            and [each["phase"] for each in status["podGangStatuses"]] == ["Running"] * (pods - 1)
        )

    return holds


async def is_gone(cluster: WorkloadCluster) -> bool:
    return await cluster.list_remaining_objects() == []


SCENARIOS: dict[str, tuple[Act, Act, Check]] = {
    "apply": (do_nothing, apply, is_whole(3)),
    "update": (apply, update, is_whole(3, "2")),
    "scale in": (apply, scale_in, is_whole(2)),
    "delete": (apply, delete, is_gone),
}


@virtual_time
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_operator_killed_between_any_two_writes_changes_nothing(scenario: str) -> None:
    before, act, done = SCENARIOS[scenario]
    async with workload_cluster(fleet=FEW_NODES) as cluster:
        wanted: Any = None
        writes, died = 0, True
        while died:
            writes += 1
            await prepare(cluster, before)
            await act(cluster)
            died = await run_until_crash(cluster, writes, done)
            async with running_operator(cluster.cluster):
                await wait_until_true(cluster, done)
                await asyncio.sleep(5)
                assert await done(cluster)
            found = await snapshot_objects(cluster)
            wanted = wanted or found
            assert found == wanted, f"after {writes} writes"
            await delete_all(cluster)
        assert writes > 5


async def prepare(cluster: WorkloadCluster, act: Act) -> None:
    if act is do_nothing:
        return
    async with running_operator(cluster.cluster):
        await act(cluster)
        await wait_until_true(cluster, is_whole(3))
        await asyncio.sleep(5)


async def run_until_crash(cluster: WorkloadCluster, writes: int, done: Check) -> bool:
    """Run an operator that crashes at a write, unless it is done before; whether it crashed.

    Every other operator loses the write at which it crashes.
    """

    async def is_over() -> bool:
        return died.is_set() or await done(cluster)

    arrives = writes % 2 == 0
    async with crashing_operator(cluster.cluster, writes, last_write_arrives=arrives) as died:
        await wait_for_condition(is_over, within=300, every=0.2)
        return died.is_set()


async def delete_all(cluster: WorkloadCluster) -> None:
    if await is_gone(cluster):
        return
    async with running_operator(cluster.cluster):
        await delete(cluster)
        await wait_until_true(cluster, is_gone)


async def wait_until_true(cluster: WorkloadCluster, check: Check) -> None:
    await wait_for_condition(lambda: check(cluster), within=300, every=0.2)


async def snapshot_objects(cluster: WorkloadCluster) -> Any:
    """What there is, but for what is drawn by lot, and the names of pods, which tell attempts."""
    return {
        kind.plural: sorted(
            (_normalise(kind, each) for each in await cluster.list_objects(kind)), key=repr
        )
        for kind in (SETS, *CHILDREN)
    }


def _normalise(kind: Resource[Any], found: Any) -> Any:
    own, spec = found["metadata"], dict(found.get("spec", {}))
    kept = {field: own.get(field) for field in ("labels", "annotations", "finalizers")}
    if kind == PODS:
        return kept, spec["hostname"], spec.get("schedulingGates")
    if kind == GANGS:
        spec["podgroups"] = [
            {**each, "podReferences": len(each["podReferences"])} for each in spec["podgroups"]
        ]
    return kept, own["name"], spec
