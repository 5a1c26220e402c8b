"""PodGroups and Topologies of KAI, on both servers, with KAI's CRDs and without KAI.

Scenario numbers are those of the specification.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import unstructured_resource
from tests.workloads.backends.foreign_kinds import (
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    install_foreign_kinds,
    uninstall_foreign_kinds,
)
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.rack_cluster import (
    TOPOLOGY,
    bind_topology,
    load_topology,
    pack_constraint,
    remove_topology,
    with_constraints,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import (
    SETTINGS,
    ScenarioCluster,
    scenario_cluster,
)
from tests.workloads.workload_cluster import PODS, SETS, TOPOLOGY_BINDINGS

EVENTS = unstructured_resource("", "v1", "events", "Event", True)
QUEUE = "kai.scheduler/queue"
ON = replace(SETTINGS, backends=("kai-scheduler",))
LEVELS = [f"kubernetes.io/{each}" for each in ("zone", "block", "rack", "hostname")]


@asynccontextmanager
async def kai(api: ScenarioApi) -> AsyncGenerator[ScenarioCluster]:
    """A cluster with the KAI backend and without a scheduler."""
    async with scenario_cluster(api, nodes=1, with_scheduler=False, settings=ON) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS, KAI_TOPOLOGIES)
        try:
            yield cluster
        finally:
            await remove_topology(cluster, TOPOLOGY)
            await cluster.wait_until(lambda: _is_gone(cluster, TOPOLOGY))


def with_kai_scheduler(body: JsonObject) -> JsonObject:
    """A set for KAI, in the queue `test`."""
    for each in body["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    body["metadata"]["labels"] = {QUEUE: "test"}
    return body


async def get_levels(cluster: ScenarioCluster, name: str = TOPOLOGY) -> list[str]:
    """The labels of nodes that a Topology of KAI names."""
    found = await cluster.get(KAI_TOPOLOGIES, name)
    return [] if found is None else [each["nodeLabel"] for each in found["spec"]["levels"]]


async def get_drift(cluster: ScenarioCluster, name: str = TOPOLOGY) -> str:
    status = (await cluster.get(TOPOLOGY_BINDINGS, name)).get("status", {})
    for each in status.get("conditions", ()):
        if each["type"] == "SchedulerTopologyDrift":
            return f"{each['status']} {each['reason']}"
    return ""


async def wait_for_drift(cluster: ScenarioCluster, wanted: str) -> None:
    async def condition() -> bool:
        return await get_drift(cluster) == wanted

    await cluster.wait_until(condition)


async def list_event_messages(
    cluster: ScenarioCluster, reason: str, name: str = TOPOLOGY
) -> list[str]:
    found = (await cluster.client.list(EVENTS)).items
    return [
        each["message"]
        for each in found
        if each.get("reason") == reason and each["involvedObject"].get("name") == name
    ]


async def wait_for_event(cluster: ScenarioCluster, reason: str) -> None:
    """Events are recorded asynchronously: the status may be seen before its event is written."""

    async def condition() -> bool:
        return bool(await list_event_messages(cluster, reason))

    await cluster.wait_until(condition)


async def _is_gone(cluster: ScenarioCluster, name: str) -> bool:
    return await cluster.get(KAI_TOPOLOGIES, name) is None


async def wait_for_pod_groups(cluster: ScenarioCluster, count: int) -> dict[str, Any]:
    """All PodGroups by their names, once there are so many and all cliques are in them."""

    async def condition() -> bool:
        found = await cluster.list_objects(KAI_POD_GROUPS)
        return len(found) == count and all(each["spec"].get("subGroups") for each in found)

    await cluster.wait_until(condition)
    await cluster.wait_until_settled()
    return {each["metadata"]["name"]: each for each in await cluster.list_objects(KAI_POD_GROUPS)}


def build_tree(pod_group: Any) -> dict[str, str]:
    """For each subgroup, by its name: least pods, parent and level; "" is the whole."""
    spec = pod_group["spec"]
    parts = {"": spec} | {each["name"]: each for each in spec["subGroups"]}
    return {name: _build_branch(each) for name, each in parts.items()}


def _build_branch(part: Any) -> str:
    constraint = part.get("topologyConstraint", {})
    assert not constraint or constraint["topology"] == TOPOLOGY
    required, preferred = (
        constraint.get(f"{side}TopologyLevel", "").rpartition("/")[2]
        for side in ("required", "preferred")
    )
    level = "~".join(filter(None, (required, preferred)))
    words = (str(part.get("minMember", "-")), part.get("parent", ""), level and f"@{level}")
    return " ".join(filter(None, words))


async def test_tas1_binding_owns_a_topology_of_its_name(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        await wait_for_drift(cluster, "False InSync")
        assert await get_levels(cluster) == LEVELS
        found = await cluster.get(KAI_TOPOLOGIES, TOPOLOGY)
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ClusterTopologyBinding", TOPOLOGY)
        bound = await cluster.get(TOPOLOGY_BINDINGS, TOPOLOGY)
        (status,) = bound["status"]["schedulerTopologyStatuses"]
        assert status["schedulerName"] == "kai-scheduler"
        assert (status["topologyReference"], status["inSync"]) == (TOPOLOGY, True)
        await wait_for_event(cluster, "TopologyInSync")
        await remove_topology(cluster, TOPOLOGY)
        await cluster.wait_until(lambda: _is_gone(cluster, TOPOLOGY))


async def test_tas18_topology_of_another_owner_is_only_compared(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        foreign = f"theirs-{api.namespace}"
        body = load_topology()
        refers = [{"schedulerName": "kai-scheduler", "topologyReference": foreign}]
        body["spec"]["schedulerTopologyBindings"] = refers
        await bind_topology(cluster, body)
        await wait_for_drift(cluster, "True Drift")
        assert await get_levels(cluster) == []
        created: JsonObject = {
            "metadata": {"name": foreign},
            "spec": {"levels": [{"nodeLabel": "a"}]},
        }
        await cluster.client.create(KAI_TOPOLOGIES, created)

        async def levels_differ() -> bool:
            found = (await cluster.get(TOPOLOGY_BINDINGS, TOPOLOGY))["status"][
                "schedulerTopologyStatuses"
            ]
            (status,) = found
            assert status["inSync"] is False
            return status.get("schedulerBackendTopologyObservedGeneration") == 1

        await cluster.wait_until(levels_differ)
        await wait_for_drift(cluster, "True Drift")
        assert await get_levels(cluster, foreign) == ["a"]
        await cluster.client.delete(KAI_TOPOLOGIES, foreign)
        created["spec"]["levels"] = [{"nodeLabel": each} for each in LEVELS]
        await cluster.client.create(KAI_TOPOLOGIES, created)
        await wait_for_drift(cluster, "False InSync")
        await wait_for_event(cluster, "TopologyDriftDetected")
        await cluster.client.delete(KAI_TOPOLOGIES, foreign)


async def test_tas19_topology_is_recreated_when_levels_change_or_it_is_deleted(
    api: ScenarioApi,
) -> None:
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        await wait_for_drift(cluster, "False InSync")
        uids = [(await cluster.get(KAI_TOPOLOGIES, TOPOLOGY))["metadata"]["uid"]]

        async def another() -> bool:
            found = await cluster.get(KAI_TOPOLOGIES, TOPOLOGY)
            return found is not None and found["metadata"]["uid"] not in uids

        await cluster.client.delete(KAI_TOPOLOGIES, TOPOLOGY)
        await cluster.wait_until(another)
        assert await get_levels(cluster) == LEVELS
        uids.append((await cluster.get(KAI_TOPOLOGIES, TOPOLOGY))["metadata"]["uid"])
        body = load_topology()
        del body["spec"]["levels"][0]
        await bind_topology(cluster, body)
        await cluster.wait_until(another)
        assert await get_levels(cluster) == LEVELS[1:]
        await wait_for_drift(cluster, "False InSync")


async def test_topology_is_dropped_when_its_binding_refers_to_another(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        await wait_for_drift(cluster, "False InSync")
        refers = [{"schedulerName": "kai-scheduler", "topologyReference": "elsewhere"}]
        patch = {"spec": {"schedulerTopologyBindings": refers}}
        await cluster.client.patch(TOPOLOGY_BINDINGS, TOPOLOGY, patch)
        await cluster.wait_until(lambda: _is_gone(cluster, TOPOLOGY))
        await wait_for_drift(cluster, "True Drift")


async def test_topology_that_kai_rejects_or_of_another_owner_is_reported(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        foreign = {"metadata": {"name": TOPOLOGY}, "spec": {"levels": [{"nodeLabel": "a"}]}}
        await cluster.client.create(KAI_TOPOLOGIES, foreign)
        await bind_topology(cluster, load_topology())
        await wait_for_drift(cluster, "True Drift")
        assert await get_levels(cluster) == ["a"]
        await cluster.client.delete(KAI_TOPOLOGIES, TOPOLOGY)
        await wait_for_drift(cluster, "False InSync")
        body = load_topology()
        body["spec"]["levels"].reverse()
        await bind_topology(cluster, body)
        await wait_for_drift(cluster, "Unknown TopologyNotFound")

        async def messages() -> bool:
            problems = await list_event_messages(cluster, "KAIBackendMappingFailed")
            return any("has another owner" in each for each in problems) and any(
                "the host must be the lowest level" in each for each in problems
            )

        await cluster.wait_until(messages)


async def test_topologies_wait_for_their_kind(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await uninstall_foreign_kinds(cluster.client, KAI_TOPOLOGIES)
        await bind_topology(cluster, load_topology())
        await wait_for_drift(cluster, "Unknown TopologyNotFound")
        await install_foreign_kinds(cluster.client, KAI_TOPOLOGIES)
        await wait_for_drift(cluster, "False InSync")
        assert await get_levels(cluster) == LEVELS


TREES: dict[str, tuple[JsonObject, dict[str, dict[str, str]]]] = {
    "tas2-cliques-differ": (
        with_constraints(
            "tas-set-only",
            cliques={"worker": pack_constraint("rack"), "helper": pack_constraint("block")},
        ),
        {"0": {"": "4", "0-worker": "2 @rack", "0-helper": "2 @block"}},
    ),
    "tas3-set": (
        load_set("tas-set-only"),
        {"0": {"": "4 @rack", "0-worker": "2", "0-helper": "2"}},
    ),
    "tas4-group": (
        load_set("tas-group-only"),
        {
            "0": {
                "": "6",
                "0-pool-0": "- @rack",
                "0-pool-1": "- @rack",
                "0-pool-0-worker": "2 0-pool-0",
                "0-pool-1-worker": "2 0-pool-1",
                "0-router": "2",
            }
        },
    ),
    "tas5-host": (load_set("tas-host"), {"0": {"": "2", "0-worker": "2 @hostname"}}),
    "tas6-zone": (
        with_constraints("tas-set-only", whole=pack_constraint("zone")),
        {"0": {"": "4 @zone", "0-worker": "2", "0-helper": "2"}},
    ),
    "tas8-hierarchy": (
        load_set("tas-hierarchy"),
        {
            "0": {
                "": "8 @block",
                "0-inference-0": "- @rack",
                "0-inference-1": "- @rack",
                "0-inference-0-prefill": "2 0-inference-0 @hostname",
                "0-inference-0-decode": "2 0-inference-0 @hostname",
                "0-inference-1-prefill": "2 0-inference-1 @hostname",
                "0-inference-1-decode": "2 0-inference-1 @hostname",
            }
        },
    ),
    "tas9-set-and-clique": (
        with_constraints(
            "tas-host", whole=pack_constraint("block"), cliques={"worker": pack_constraint("host")}
        ),
        {"0": {"": "2 @block", "0-worker": "2 @hostname"}},
    ),
    "tas10-group-that-scales": (
        with_constraints(
            "tas-group-only",
            whole=pack_constraint("block"),
            groups={"pool": pack_constraint("rack")},
            replicas=3,
            minAvailable=1,
        ),
        {
            "0": {
                "": "4 @block",
                "0-pool-0": "- @rack",
                "0-router": "2",
                "0-pool-0-worker": "2 0-pool-0",
            },
            "0-pool-0": {"": "2 @block", "0-pool-1": "- @rack", "0-pool-1-worker": "2 0-pool-1"},
            "0-pool-1": {"": "2 @block", "0-pool-2": "- @rack", "0-pool-2-worker": "2 0-pool-2"},
        },
    ),
    "tas11-group-and-clique": (
        with_constraints(
            "tas-group-only",
            groups={"pool": pack_constraint("rack")},
            cliques={"worker": pack_constraint("host")},
        ),
        {
            "0": {
                "": "6",
                "0-pool-0": "- @rack",
                "0-pool-1": "- @rack",
                "0-pool-0-worker": "2 0-pool-0 @hostname",
                "0-pool-1-worker": "2 0-pool-1 @hostname",
                "0-router": "2",
            }
        },
    ),
    "tas12-many-beyond-the-least": (
        load_set("tas-large-scale"),
        {
            "0": {
                "": "3 @block",
                "0-workers-0": "- @rack",
                "0-workers-0-worker": "3 0-workers-0 @hostname",
            },
            "0-workers-0": {
                "": "3 @block",
                "0-workers-1": "- @rack",
                "0-workers-1-worker": "3 0-workers-1 @hostname",
            },
        },
    ),
    "tas7-none": (
        with_constraints("tas-set-only"),
        {"0": {"": "4", "0-worker": "2", "0-helper": "2"}},
    ),
    "tas23-preferred": (
        load_set("tas-preferred"),
        {"0": {"": "2 @block~rack", "0-worker": "2"}},
    ),
}


@pytest.mark.parametrize("case", TREES)
async def test_pod_group_is_the_tree_of_the_set(api: ScenarioApi, case: str) -> None:
    body, wanted = TREES[case]
    name = body["metadata"]["name"]
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        await cluster.apply(with_kai_scheduler(body))
        found = await wait_for_pod_groups(cluster, len(wanted))
        short = {
            gang.removeprefix(f"{name}-"): {
                part.removeprefix(f"{name}-"): text.replace(f" {name}-", " ")
                for part, text in build_tree(each).items()
            }
            for gang, each in found.items()
        }
        assert short == wanted


async def test_scaled_gangs_are_pod_groups_and_all_go_with_the_set(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        body = with_kai_scheduler(load_set("tas-disaggregated"))
        await cluster.apply(body)
        name = body["metadata"]["name"]
        found = await wait_for_pod_groups(cluster, 3)
        assert sorted(found) == [f"{name}-0", f"{name}-0-decoder-0", f"{name}-0-prefill-0"]
        assert build_tree(found[f"{name}-0-decoder-0"])[""] == "2 @block"
        for each in found.values():
            (owner,) = each["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("PodGang", each["metadata"]["name"])
            assert each["spec"]["queue"] == "test"
        await cluster.client.delete(SETS, name, cluster.namespace)

        async def gone() -> bool:
            return not await cluster.list_objects(
                KAI_POD_GROUPS
            ) and not await cluster.list_objects(SETS)

        await cluster.wait_until(gone)


async def test_queue_of_a_clique_is_the_pod_groups_and_the_pods(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await cluster.apply("kai-queue")
        found = await wait_for_pod_groups(cluster, 1)
        assert found["kai-queue-0"]["spec"]["queue"] == "test"
        pods = await cluster.list_objects(PODS)
        assert len(pods) == 2
        for pod in pods:
            labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
            assert labels["kai.scheduler/subgroup-name"] == "kai-queue-0-worker"
            assert labels[QUEUE] == "test"
            assert annotations["pod-group-name"] == "kai-queue-0"
            assert annotations["kai.scheduler/skip-podgrouper"] == "true"


async def test_constraints_are_removed_when_their_binding_is_deleted(api: ScenarioApi) -> None:
    async with kai(api) as cluster:
        await bind_topology(cluster, load_topology())
        await cluster.apply(with_kai_scheduler(load_set("tas-set-only")))
        await wait_for_pod_groups(cluster, 1)
        await remove_topology(cluster, TOPOLOGY)

        async def free() -> bool:
            (found,) = await cluster.list_objects(KAI_POD_GROUPS)
            return "topologyConstraint" not in found["spec"]

        await cluster.wait_until(free)
