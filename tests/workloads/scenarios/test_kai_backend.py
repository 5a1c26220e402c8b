"""A KAI user's PodGroups and Topologies, on both servers, with KAI's kinds and without KAI.

Scenario numbers are those of the specification.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import plain
from tests.conftest import Api
from tests.workloads.backends.foreign_kinds import (
    KAI_GROUPS,
    KAI_TOPOLOGIES,
    install,
    uninstall,
)
from tests.workloads.ground import PODS, SETS, TOPOLOGIES
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.plant import (
    TOPOLOGY,
    bind_topology,
    constrained,
    remove_topology,
    topology,
    within,
)
from tests.workloads.scenarios.world import SETTINGS, World, world

EVENTS = plain("", "v1", "events", "Event", True)
QUEUE = "kai.scheduler/queue"
ON = replace(SETTINGS, backends=("kai-scheduler",))
LEVELS = [f"kubernetes.io/{each}" for each in ("zone", "block", "rack", "hostname")]


@asynccontextmanager
async def kai(api: Api) -> AsyncGenerator[World]:
    """A world whose operator works for KAI; nobody places pods in it."""
    async with world(api, nodes=1, schedules=False, settings=ON) as stage:
        await install(stage.client, KAI_GROUPS, KAI_TOPOLOGIES)
        try:
            yield stage
        finally:
            await remove_topology(stage, TOPOLOGY)
            await stage.until(lambda: _gone(stage, TOPOLOGY))


def for_kai(body: JsonObject) -> JsonObject:
    """A set that KAI is to place, from the queue `test`."""
    for each in body["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    body["metadata"]["labels"] = {QUEUE: "test"}
    return body


async def levels(stage: World, name: str = TOPOLOGY) -> list[str]:
    """The labels of nodes that a Topology of KAI names."""
    found = await stage.get(KAI_TOPOLOGIES, name)
    return [] if found is None else [each["nodeLabel"] for each in found["spec"]["levels"]]


async def drift(stage: World, name: str = TOPOLOGY) -> str:
    status = (await stage.get(TOPOLOGIES, name)).get("status", {})
    for each in status.get("conditions", ()):
        if each["type"] == "SchedulerTopologyDrift":
            return f"{each['status']} {each['reason']}"
    return ""


async def becomes_drift(stage: World, wanted: str) -> None:
    async def so() -> bool:
        return await drift(stage) == wanted

    await stage.until(so)


async def told(stage: World, reason: str, name: str = TOPOLOGY) -> list[str]:
    found = (await stage.client.list(EVENTS)).items
    return [
        each["message"]
        for each in found
        if each.get("reason") == reason and each["involvedObject"].get("name") == name
    ]


async def _gone(stage: World, name: str) -> bool:
    return await stage.get(KAI_TOPOLOGIES, name) is None


async def pod_groups(stage: World, count: int) -> dict[str, Any]:
    """All PodGroups by their names, once there are so many and all cliques are in them."""

    async def so() -> bool:
        found = await stage.all(KAI_GROUPS)
        return len(found) == count and all(each["spec"].get("subGroups") for each in found)

    await stage.until(so)
    await stage.until_settled()
    return {each["metadata"]["name"]: each for each in await stage.all(KAI_GROUPS)}


def tree(pod_group: Any) -> dict[str, str]:
    """For each subgroup, by its name: least pods, parent and level; "" is the whole."""
    spec = pod_group["spec"]
    parts = {"": spec} | {each["name"]: each for each in spec["subGroups"]}
    return {name: _branch(each) for name, each in parts.items()}


def _branch(part: Any) -> str:
    constraint = part.get("topologyConstraint", {})
    assert not constraint or constraint["topology"] == TOPOLOGY
    required, preferred = (
        constraint.get(f"{side}TopologyLevel", "").rpartition("/")[2]
        for side in ("required", "preferred")
    )
    level = "~".join(filter(None, (required, preferred)))
    words = (str(part.get("minMember", "-")), part.get("parent", ""), level and f"@{level}")
    return " ".join(filter(None, words))


async def test_tas1_binding_has_a_topology_of_its_name_that_goes_with_it(api: Api) -> None:
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        await becomes_drift(stage, "False InSync")
        assert await levels(stage) == LEVELS
        found = await stage.get(KAI_TOPOLOGIES, TOPOLOGY)
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ClusterTopologyBinding", TOPOLOGY)
        bound = await stage.get(TOPOLOGIES, TOPOLOGY)
        (status,) = bound["status"]["schedulerTopologyStatuses"]
        assert status["schedulerName"] == "kai-scheduler"
        assert (status["topologyReference"], status["inSync"]) == (TOPOLOGY, True)
        assert await told(stage, "TopologyInSync")
        await remove_topology(stage, TOPOLOGY)
        await stage.until(lambda: _gone(stage, TOPOLOGY))


async def test_tas18_topology_of_somebody_else_is_only_compared(api: Api) -> None:
    async with kai(api) as stage:
        theirs = f"theirs-{api.namespace}"
        body = topology()
        refers = [{"schedulerName": "kai-scheduler", "topologyReference": theirs}]
        body["spec"]["schedulerTopologyBindings"] = refers
        await bind_topology(stage, body)
        await becomes_drift(stage, "True Drift")
        assert await levels(stage) == []
        made: JsonObject = {"metadata": {"name": theirs}, "spec": {"levels": [{"nodeLabel": "a"}]}}
        await stage.client.create(KAI_TOPOLOGIES, made)

        async def levels_differ() -> bool:
            found = (await stage.get(TOPOLOGIES, TOPOLOGY))["status"]["schedulerTopologyStatuses"]
            (status,) = found
            assert status["inSync"] is False
            return status.get("schedulerBackendTopologyObservedGeneration") == 1

        await stage.until(levels_differ)
        await becomes_drift(stage, "True Drift")
        assert await levels(stage, theirs) == ["a"]
        await stage.client.delete(KAI_TOPOLOGIES, theirs)
        made["spec"]["levels"] = [{"nodeLabel": each} for each in LEVELS]
        await stage.client.create(KAI_TOPOLOGIES, made)
        await becomes_drift(stage, "False InSync")
        assert await told(stage, "TopologyDriftDetected")
        await stage.client.delete(KAI_TOPOLOGIES, theirs)


async def test_tas19_topology_is_made_anew_when_levels_change_or_somebody_deletes_it(
    api: Api,
) -> None:
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        await becomes_drift(stage, "False InSync")
        uids = [(await stage.get(KAI_TOPOLOGIES, TOPOLOGY))["metadata"]["uid"]]

        async def another() -> bool:
            found = await stage.get(KAI_TOPOLOGIES, TOPOLOGY)
            return found is not None and found["metadata"]["uid"] not in uids

        await stage.client.delete(KAI_TOPOLOGIES, TOPOLOGY)
        await stage.until(another)
        assert await levels(stage) == LEVELS
        uids.append((await stage.get(KAI_TOPOLOGIES, TOPOLOGY))["metadata"]["uid"])
        body = topology()
        del body["spec"]["levels"][0]
        await bind_topology(stage, body)
        await stage.until(another)
        assert await levels(stage) == LEVELS[1:]
        await becomes_drift(stage, "False InSync")


async def test_topology_is_dropped_when_its_binding_refers_to_another(api: Api) -> None:
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        await becomes_drift(stage, "False InSync")
        refers = [{"schedulerName": "kai-scheduler", "topologyReference": "elsewhere"}]
        patch = {"spec": {"schedulerTopologyBindings": refers}}
        await stage.client.patch(TOPOLOGIES, TOPOLOGY, patch)
        await stage.until(lambda: _gone(stage, TOPOLOGY))
        await becomes_drift(stage, "True Drift")


async def test_topology_that_kai_refuses_or_that_is_anothers_is_told(api: Api) -> None:
    async with kai(api) as stage:
        theirs = {"metadata": {"name": TOPOLOGY}, "spec": {"levels": [{"nodeLabel": "a"}]}}
        await stage.client.create(KAI_TOPOLOGIES, theirs)
        await bind_topology(stage, topology())
        await becomes_drift(stage, "True Drift")
        assert await levels(stage) == ["a"]
        await stage.client.delete(KAI_TOPOLOGIES, TOPOLOGY)
        await becomes_drift(stage, "False InSync")
        body = topology()
        body["spec"]["levels"].reverse()
        await bind_topology(stage, body)
        await becomes_drift(stage, "Unknown TopologyNotFound")

        async def said() -> bool:
            problems = await told(stage, "KAIBackendMappingFailed")
            return any("is somebody else's" in each for each in problems) and any(
                "the host must be the lowest level" in each for each in problems
            )

        await stage.until(said)


async def test_topologies_wait_for_their_kind(api: Api) -> None:
    async with kai(api) as stage:
        await uninstall(stage.client, KAI_TOPOLOGIES)
        await bind_topology(stage, topology())
        await becomes_drift(stage, "Unknown TopologyNotFound")
        await install(stage.client, KAI_TOPOLOGIES)
        await becomes_drift(stage, "False InSync")
        assert await levels(stage) == LEVELS


TREES: dict[str, tuple[JsonObject, dict[str, dict[str, str]]]] = {
    "tas2-cliques-differ": (
        constrained("tas-set-only", cliques={"worker": within("rack"), "helper": within("block")}),
        {"0": {"": "4", "0-worker": "2 @rack", "0-helper": "2 @block"}},
    ),
    "tas3-set": (
        set_of("tas-set-only"),
        {"0": {"": "4 @rack", "0-worker": "2", "0-helper": "2"}},
    ),
    "tas4-group": (
        set_of("tas-group-only"),
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
    "tas5-host": (set_of("tas-host"), {"0": {"": "2", "0-worker": "2 @hostname"}}),
    "tas6-zone": (
        constrained("tas-set-only", whole=within("zone")),
        {"0": {"": "4 @zone", "0-worker": "2", "0-helper": "2"}},
    ),
    "tas8-hierarchy": (
        set_of("tas-hierarchy"),
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
        constrained("tas-host", whole=within("block"), cliques={"worker": within("host")}),
        {"0": {"": "2 @block", "0-worker": "2 @hostname"}},
    ),
    "tas10-group-that-scales": (
        constrained(
            "tas-group-only",
            whole=within("block"),
            groups={"pool": within("rack")},
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
        constrained(
            "tas-group-only", groups={"pool": within("rack")}, cliques={"worker": within("host")}
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
        set_of("tas-large-scale"),
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
    "tas7-none": (constrained("tas-set-only"), {"0": {"": "4", "0-worker": "2", "0-helper": "2"}}),
    "tas23-preferred": (
        set_of("tas-preferred"),
        {"0": {"": "2 @block~rack", "0-worker": "2"}},
    ),
}


@pytest.mark.parametrize("case", TREES)
async def test_pod_group_is_the_tree_that_the_set_says(api: Api, case: str) -> None:
    body, wanted = TREES[case]
    name = body["metadata"]["name"]
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        await stage.apply(for_kai(body))
        found = await pod_groups(stage, len(wanted))
        short = {
            gang.removeprefix(f"{name}-"): {
                part.removeprefix(f"{name}-"): text.replace(f" {name}-", " ")
                for part, text in tree(each).items()
            }
            for gang, each in found.items()
        }
        assert short == wanted


async def test_scaled_gangs_are_pod_groups_and_all_go_with_the_set(api: Api) -> None:
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        body = for_kai(set_of("tas-disaggregated"))
        await stage.apply(body)
        name = body["metadata"]["name"]
        found = await pod_groups(stage, 3)
        assert sorted(found) == [f"{name}-0", f"{name}-0-decoder-0", f"{name}-0-prefill-0"]
        assert tree(found[f"{name}-0-decoder-0"])[""] == "2 @block"
        for each in found.values():
            (owner,) = each["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("PodGang", each["metadata"]["name"])
            assert each["spec"]["queue"] == "test"
        await stage.client.delete(SETS, name, stage.namespace)

        async def gone() -> bool:
            return not await stage.all(KAI_GROUPS) and not await stage.all(SETS)

        await stage.until(gone)


async def test_queue_of_a_clique_is_the_pod_groups_and_the_pods(api: Api) -> None:
    async with kai(api) as stage:
        await stage.apply("kai-queue")
        found = await pod_groups(stage, 1)
        assert found["kai-queue-0"]["spec"]["queue"] == "test"
        pods = await stage.all(PODS)
        assert len(pods) == 2
        for pod in pods:
            labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
            assert labels["kai.scheduler/subgroup-name"] == "kai-queue-0-worker"
            assert labels[QUEUE] == "test"
            assert annotations["pod-group-name"] == "kai-queue-0"
            assert annotations["kai.scheduler/skip-podgrouper"] == "true"


async def test_constraints_leave_pod_groups_when_their_binding_goes(api: Api) -> None:
    async with kai(api) as stage:
        await bind_topology(stage, topology())
        await stage.apply(for_kai(set_of("tas-set-only")))
        await pod_groups(stage, 1)
        await remove_topology(stage, TOPOLOGY)

        async def free() -> bool:
            (found,) = await stage.all(KAI_GROUPS)
            return "topologyConstraint" not in found["spec"]

        await stage.until(free)
