"""Sets, groups and cliques beyond the limits do not affect others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.common import MAX_REPLICAS
from kilonova.api.grove.podcliqueset import (
    ResourceClaimTemplate,
    ResourceSharing,
    SetRollingUpdate,
    UpdateStrategy,
)
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.simnodes import NO_NODES
from tests.local.embedded_cluster import (
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CHILDREN,
    CLIQUES,
    NAMESPACE,
    PODS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time

BILLIONS = 2_000_000_000
EVENTS = unstructured_resource("events.k8s.io", "v1", "events", "Event", True)
DEFINITIONS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


def build_normal_set(name: str = "normal", **more: Any) -> PodCliqueSet:
    """A small set."""
    return pod_clique_set(
        clique("front"), clique("back", 2), groups=[group("team", "back")], name=name, **more
    )


@asynccontextmanager
async def cluster_without_limits() -> AsyncGenerator[WorkloadCluster]:
    """A cluster whose CRDs have no maximum of replicas, with an operator."""
    async with workload_cluster() as cluster:
        await install_definitions(cluster, limited=False)
        async with running_operator(cluster.cluster):
            yield cluster


async def install_definitions(cluster: WorkloadCluster, *, limited: bool) -> None:
    """Install the current CRDs, or those without limits."""
    for each in load_definitions():
        versions = each["spec"]["versions"]
        body = {"spec": {"versions": versions if limited else _unlimited(versions)}}
        await cluster.client.patch(DEFINITIONS, each["metadata"]["name"], body)


def _unlimited(value: Any) -> Any:
    if isinstance(value, dict):
        limit = ("maximum", MAX_REPLICAS)
        return {key: _unlimited(each) for key, each in value.items() if (key, each) != limit}
    return [_unlimited(each) for each in value] if isinstance(value, list) else value


async def list_errors(
    cluster: WorkloadCluster, resource: Resource[Any], name: str
) -> list[tuple[str, str]]:
    found = (await cluster.get(resource, name)).get("status", {})
    return [(each["code"], each["description"]) for each in found.get("lastErrors", [])]


async def wait_until_reported(
    cluster: WorkloadCluster, resource: Resource[Any], name: str, text: str
) -> None:
    async def is_reported() -> bool:
        found = await list_errors(cluster, resource, name)
        return any(text in description for _, description in found)

    await wait_for_condition(is_reported)


async def wait_until_available(
    cluster: WorkloadCluster, name: str = "normal", replicas: int = 1
) -> None:
    def is_well(status: Any) -> bool:
        return status.get("availableReplicas") == replicas and not status.get("lastErrors")

    await cluster.wait_for_status(is_well, name)


async def list_created_objects(cluster: WorkloadCluster, name: str) -> list[str]:
    """The objects of a set."""
    return [
        f"{resource.plural}/{each['metadata']['name']}"
        for resource in CHILDREN
        for each in await cluster.list_objects(resource)
        if each["metadata"].get("labels", {}).get(names.PART_OF) == name
    ]


@pytest.mark.parametrize(
    "absurd",
    [
        pod_clique_set(clique("a"), name="absurd", replicas=BILLIONS),
        pod_clique_set(clique("a", BILLIONS), name="absurd"),
        pod_clique_set(
            clique("a"),
            clique("b"),
            groups=[group("g", "a", replicas=BILLIONS, min_available=BILLIONS)],
            startup="CliqueStartupTypeInOrder",
            name="absurd",
        ),
        pod_clique_set(
            clique("a", 1000), groups=[group("g", "a", replicas=1000)], replicas=1000, name="absurd"
        ),
        pod_clique_set(*(clique(f"c{each}") for each in range(1000)), name="absurd"),
    ],
    ids=["set", "clique", "group", "product", "roles"],
)
async def test_oversized_set_creates_nothing_and_another_gets_ready(
    absurd: PodCliqueSet,
) -> None:
    async with cluster_without_limits() as cluster:
        await cluster.apply(absurd)
        await cluster.apply(build_normal_set())
        await wait_until_available(cluster)
        ((code, description),) = await list_errors(cluster, SETS, "absurd")
        assert code == "ERR_OVER_LIMIT"
        assert "Invalid value" in description
        await advance_time(60)
        assert await list_created_objects(cluster, "absurd") == []
        events = [
            each for each in await cluster.list_objects(EVENTS) if each["reason"] == "LimitExceeded"
        ]
        assert [(each["type"], each["note"]) for each in events] == [("Warning", description)]
        await cluster.client.delete(SETS, "absurd", NAMESPACE)
        assert await cluster.get(SETS, "absurd") is None


async def test_set_continues_when_its_replicas_are_reduced() -> None:
    async with cluster_without_limits() as cluster:
        await cluster.apply(build_normal_set())
        await wait_until_available(cluster)
        before = await list_created_objects(cluster, "normal")
        await cluster.client.set_scale(SETS, "normal", NAMESPACE, BILLIONS)
        await wait_until_reported(
            cluster, SETS, "normal", "spec.replicas: Invalid value: 2000000000"
        )
        (lost, *_) = await cluster.list_names(PODS)
        await cluster.client.delete(PODS, lost, NAMESPACE)
        await advance_time(60)
        assert len(await list_created_objects(cluster, "normal")) == len(before), (
            "what was there is kept"
        )
        await cluster.client.set_scale(SETS, "normal", NAMESPACE, 2)
        await wait_until_available(cluster, replicas=2)
        await cluster.client.set_scale(SETS, "normal", NAMESPACE, BILLIONS)
        await wait_until_reported(
            cluster, SETS, "normal", "spec.replicas: Invalid value: 2000000000"
        )
        await cluster.client.set_scale(SETS, "normal", NAMESPACE, 0)

        async def is_empty() -> bool:
            return await cluster.list_names(CLIQUES) == []

        await wait_for_condition(is_empty)


async def test_a_set_from_before_there_were_limits_is_reported_repaired_and_deleted() -> None:
    async with workload_cluster() as cluster:
        await install_definitions(cluster, limited=False)
        for name in ("mended", "deleted"):
            await cluster.apply(build_normal_set(name, replicas=BILLIONS))
            held = {"metadata": {"finalizers": [names.SET_FINALIZER]}}
            await cluster.client.patch(SETS, name, held, NAMESPACE)
        await install_definitions(cluster, limited=True)
        async with running_operator(cluster.cluster):
            for name in ("mended", "deleted"):
                await wait_until_reported(
                    cluster, SETS, name, "spec.replicas: Invalid value: 2000000000"
                )
            await cluster.client.set_scale(SETS, "mended", NAMESPACE, 1)
            await wait_until_available(cluster, "mended")
            await cluster.client.delete(SETS, "deleted", NAMESPACE)
            await wait_deleted(cluster.client, SETS, "deleted")


@pytest.mark.parametrize(
    ("resource", "name", "kind"),
    [
        (CLIQUES, "normal-0-front", "PodClique"),
        (CLIQUES, "normal-0-team-0-back", "PodClique"),
        (SCALING_GROUPS, "normal-0-team", "PodCliqueScalingGroup"),
    ],
)
async def test_object_scaled_beyond_limits_is_unchanged_until_scaled_in(
    resource: Resource[Any], name: str, kind: str
) -> None:
    async with cluster_without_limits() as cluster:
        await cluster.apply(build_normal_set(replicas=2))
        await wait_until_available(cluster, replicas=2)
        before = await list_created_objects(cluster, "normal")
        await cluster.client.set_scale(resource, name, NAMESPACE, BILLIONS)
        message = f"{kind} {name}: spec.replicas: Invalid value: 2000000000"
        await wait_until_reported(cluster, SETS, "normal", message)
        if resource is SCALING_GROUPS:
            await wait_until_reported(cluster, SCALING_GROUPS, name, message)
        else:
            message = "spec.replicas: Invalid value: 2000000000: must not be greater than 100000"
            await wait_until_reported(cluster, CLIQUES, name, message)
        await cluster.apply(build_normal_set("other"))
        await wait_until_available(cluster, "other")
        await advance_time(60)
        assert await list_created_objects(cluster, "normal") == before
        await cluster.client.set_scale(resource, name, NAMESPACE, 3)
        await wait_until_available(cluster, replicas=2)

        async def has_grown() -> bool:
            return len(await list_created_objects(cluster, "normal")) > len(before)

        await wait_for_condition(has_grown)
        assert await list_errors(cluster, resource, name) == []


async def test_clique_without_owner_is_limited() -> None:
    spec = {"roleName": "a", "podSpec": pod_template(), "replicas": BILLIONS, "minAvailable": 1}
    async with cluster_without_limits() as cluster:
        body = {"metadata": {"name": "stray"}, "spec": spec}
        await cluster.client.create(CLIQUES, body, NAMESPACE)
        await wait_until_reported(cluster, CLIQUES, "stray", "must not be greater than 100000")
        await advance_time(60)
        assert await cluster.list_names(PODS) == []
        await cluster.client.set_scale(CLIQUES, "stray", NAMESPACE, 2)

        async def has_two() -> bool:
            return len(await cluster.list_names(PODS)) == 2

        await wait_for_condition(has_two)
        assert await list_errors(cluster, CLIQUES, "stray") == []


async def test_a_pod_with_an_index_out_of_range_is_replaced() -> None:
    device = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    templates = (ResourceClaimTemplate("gpu", {"spec": {"devices": device}}),)
    shared = clique("a", resource_sharing=(ResourceSharing("gpu", "PerReplica"),))
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(shared, resource_claim_templates=templates))

        async def has_one_pod() -> bool:
            return len(await cluster.list_names(PODS)) == 1

        await wait_for_condition(has_one_pod)
        (pod,) = await cluster.list_objects(PODS)
        body = {"metadata": {"labels": {names.POD_INDEX: str(BILLIONS)}}}
        await cluster.client.patch(PODS, pod["metadata"]["name"], body, NAMESPACE)

        async def is_another() -> bool:
            uids = [each["metadata"]["uid"] for each in await cluster.list_objects(PODS)]
            return len(uids) == 1 and uids != [pod["metadata"]["uid"]]

        await wait_for_condition(is_another)
        await advance_time(30)
        assert await cluster.list_names(RESOURCE_CLAIMS) == ["sys-0-a-0-gpu"]


async def test_surge_at_most_doubles_the_replicas() -> None:
    options = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=BILLIONS, max_unavailable=0))
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(clique("a"), update_strategy=options, replicas=2))
        await wait_until_available(cluster, "sys", 2)
        edited = clique("a", pod_spec=pod_template(nodeSelector={}, priority=0))
        await cluster.apply(pod_clique_set(edited, update_strategy=options, replicas=2))
        most = 0

        async def is_over() -> bool:
            nonlocal most
            most = max(most, len(await cluster.list_names(CLIQUES)))
            progress = (await cluster.get_status("sys")).get("updateProgress") or {}
            return "updateEndedAt" in progress

        await wait_for_condition(is_over)
        assert most == 4


async def test_clique_with_more_pods_than_one_reconcile_creates_gets_all() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(clique("a", 2100)))

        async def are_there() -> bool:
            return len(await cluster.list_names(PODS)) == 2100

        await wait_for_condition(are_there)
