"""Sets, groups and cliques that ask for more than anybody can have; others do not notice."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.crds import definitions
from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.parts import MOST_REPLICAS
from kilonova.api.grove.podcliqueset import (
    ResourceClaimTemplate,
    ResourceSharing,
    SetRollingUpdate,
    UpdateStrategy,
)
from kilonova.kube.resource import Resource, plain
from kilonova.local.nodes import NO_NODES
from tests.local.embedded_cluster import eventually, gone, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    CHILDREN,
    CLAIMS,
    CLIQUES,
    GROUPS,
    NAMESPACE,
    PODS,
    SETS,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

BILLIONS = 2_000_000_000
EVENTS = plain("events.k8s.io", "v1", "events", "Event", True)
DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


def normal(name: str = "normal", **more: Any) -> PodCliqueSet:
    """A set that asks for little."""
    return pod_clique_set(
        clique("front"), clique("back", 2), groups=[group("team", "back")], name=name, **more
    )


@asynccontextmanager
async def older_ground() -> AsyncGenerator[Ground]:
    """A cluster whose definitions know no greatest number of replicas, with an operator."""
    async with ground() as place:
        await define(place, limited=False)
        async with operating(place.cluster):
            yield place


async def define(place: Ground, *, limited: bool) -> None:
    """Put definitions of today in place, or those of a time without limits."""
    for each in definitions():
        versions = each["spec"]["versions"]
        body = {"spec": {"versions": versions if limited else _unlimited(versions)}}
        await place.client.patch(DEFINITIONS, each["metadata"]["name"], body)


def _unlimited(value: Any) -> Any:
    if isinstance(value, dict):
        limit = ("maximum", MOST_REPLICAS)
        return {key: _unlimited(each) for key, each in value.items() if (key, each) != limit}
    return [_unlimited(each) for each in value] if isinstance(value, list) else value


async def errors_of(place: Ground, resource: Resource[Any], name: str) -> list[tuple[str, str]]:
    found = (await place.get(resource, name)).get("status", {})
    return [(each["code"], each["description"]) for each in found.get("lastErrors", [])]


async def until_told(place: Ground, resource: Resource[Any], name: str, text: str) -> None:
    async def is_told() -> bool:
        found = await errors_of(place, resource, name)
        return any(text in description for _, description in found)

    await eventually(is_told)


async def until_well(place: Ground, name: str = "normal", replicas: int = 1) -> None:
    def is_well(status: Any) -> bool:
        return status.get("availableReplicas") == replicas and not status.get("lastErrors")

    await place.until(is_well, name)


async def made_for(place: Ground, name: str) -> list[str]:
    """What there is of a set."""
    return [
        f"{resource.plural}/{each['metadata']['name']}"
        for resource in CHILDREN
        for each in await place.all(resource)
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
async def test_nothing_is_made_of_an_absurd_set_and_another_one_gets_ready(
    absurd: PodCliqueSet,
) -> None:
    async with older_ground() as place:
        await place.apply(absurd)
        await place.apply(normal())
        await until_well(place)
        ((code, description),) = await errors_of(place, SETS, "absurd")
        assert code == "ERR_OVER_LIMIT"
        assert "Invalid value" in description
        await settle(60)
        assert await made_for(place, "absurd") == []
        events = [each for each in await place.all(EVENTS) if each["reason"] == "LimitExceeded"]
        assert [(each["type"], each["note"]) for each in events] == [("Warning", description)]
        await place.client.delete(SETS, "absurd", NAMESPACE)
        assert await place.get(SETS, "absurd") is None


async def test_a_set_goes_on_when_its_replicas_are_lowered() -> None:
    async with older_ground() as place:
        await place.apply(normal())
        await until_well(place)
        before = await made_for(place, "normal")
        await place.client.set_scale(SETS, "normal", NAMESPACE, BILLIONS)
        await until_told(place, SETS, "normal", "spec.replicas: Invalid value: 2000000000")
        (lost, *_) = await place.names(PODS)
        await place.client.delete(PODS, lost, NAMESPACE)
        await settle(60)
        assert len(await made_for(place, "normal")) == len(before), "what was there is kept"
        await place.client.set_scale(SETS, "normal", NAMESPACE, 2)
        await until_well(place, replicas=2)
        await place.client.set_scale(SETS, "normal", NAMESPACE, BILLIONS)
        await until_told(place, SETS, "normal", "spec.replicas: Invalid value: 2000000000")
        await place.client.set_scale(SETS, "normal", NAMESPACE, 0)

        async def is_empty() -> bool:
            return await place.names(CLIQUES) == []

        await eventually(is_empty)


async def test_a_set_from_before_there_were_limits_is_told_of_mended_and_deleted() -> None:
    async with ground() as place:
        await define(place, limited=False)
        for name in ("mended", "deleted"):
            await place.apply(normal(name, replicas=BILLIONS))
            held = {"metadata": {"finalizers": [names.SET_FINALIZER]}}
            await place.client.patch(SETS, name, held, NAMESPACE)
        await define(place, limited=True)
        async with operating(place.cluster):
            for name in ("mended", "deleted"):
                await until_told(place, SETS, name, "spec.replicas: Invalid value: 2000000000")
            await place.client.set_scale(SETS, "mended", NAMESPACE, 1)
            await until_well(place, "mended")
            await place.client.delete(SETS, "deleted", NAMESPACE)
            await gone(place.client, SETS, "deleted")


@pytest.mark.parametrize(
    ("resource", "name", "kind"),
    [
        (CLIQUES, "normal-0-front", "PodClique"),
        (CLIQUES, "normal-0-team-0-back", "PodClique"),
        (GROUPS, "normal-0-team", "PodCliqueScalingGroup"),
    ],
)
async def test_what_is_scaled_beyond_all_measure_stays_as_it_is_until_it_is_scaled_in(
    resource: Resource[Any], name: str, kind: str
) -> None:
    async with older_ground() as place:
        await place.apply(normal(replicas=2))
        await until_well(place, replicas=2)
        before = await made_for(place, "normal")
        await place.client.set_scale(resource, name, NAMESPACE, BILLIONS)
        told = f"{kind} {name}: spec.replicas: Invalid value: 2000000000"
        await until_told(place, SETS, "normal", told)
        if resource is GROUPS:
            await until_told(place, GROUPS, name, told)
        else:
            told = "spec.replicas: Invalid value: 2000000000: must not be greater than 100000"
            await until_told(place, CLIQUES, name, told)
        await place.apply(normal("other"))
        await until_well(place, "other")
        await settle(60)
        assert await made_for(place, "normal") == before
        await place.client.set_scale(resource, name, NAMESPACE, 3)
        await until_well(place, replicas=2)

        async def has_grown() -> bool:
            return len(await made_for(place, "normal")) > len(before)

        await eventually(has_grown)
        assert await errors_of(place, resource, name) == []


async def test_a_clique_of_nobody_makes_no_end_of_pods() -> None:
    spec = {"roleName": "a", "podSpec": pod_template(), "replicas": BILLIONS, "minAvailable": 1}
    async with older_ground() as place:
        body = {"metadata": {"name": "stray"}, "spec": spec}
        await place.client.create(CLIQUES, body, NAMESPACE)
        await until_told(place, CLIQUES, "stray", "must not be greater than 100000: lower it")
        await settle(60)
        assert await place.names(PODS) == []
        await place.client.set_scale(CLIQUES, "stray", NAMESPACE, 2)

        async def has_two() -> bool:
            return len(await place.names(PODS)) == 2

        await eventually(has_two)
        assert await errors_of(place, CLIQUES, "stray") == []


async def test_a_pod_that_is_said_to_have_a_place_beyond_all_measure_is_replaced() -> None:
    device = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    templates = (ResourceClaimTemplate("gpu", {"spec": {"devices": device}}),)
    shared = clique("a", resource_sharing=(ResourceSharing("gpu", "PerReplica"),))
    async with ground(fleet=NO_NODES) as place, operating(place.cluster):
        await place.apply(pod_clique_set(shared, resource_claim_templates=templates))

        async def has_one_pod() -> bool:
            return len(await place.names(PODS)) == 1

        await eventually(has_one_pod)
        (pod,) = await place.all(PODS)
        body = {"metadata": {"labels": {names.POD_INDEX: str(BILLIONS)}}}
        await place.client.patch(PODS, pod["metadata"]["name"], body, NAMESPACE)

        async def is_another() -> bool:
            uids = [each["metadata"]["uid"] for each in await place.all(PODS)]
            return len(uids) == 1 and uids != [pod["metadata"]["uid"]]

        await eventually(is_another)
        await settle(30)
        assert await place.names(CLAIMS) == ["sys-0-a-0-gpu"]


async def test_a_surge_is_never_more_than_as_many_again() -> None:
    how = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=BILLIONS, max_unavailable=0))
    async with ground() as place, operating(place.cluster):
        await place.apply(pod_clique_set(clique("a"), update_strategy=how, replicas=2))
        await until_well(place, "sys", 2)
        edited = clique("a", pod_spec=pod_template(nodeSelector={}, priority=0))
        await place.apply(pod_clique_set(edited, update_strategy=how, replicas=2))
        most = 0

        async def is_over() -> bool:
            nonlocal most
            most = max(most, len(await place.names(CLIQUES)))
            progress = (await place.status("sys")).get("updateProgress") or {}
            return "updateEndedAt" in progress

        await eventually(is_over)
        assert most == 4


async def test_a_clique_of_more_pods_than_are_made_at_once_gets_all() -> None:
    async with ground(fleet=NO_NODES) as place, operating(place.cluster):
        await place.apply(pod_clique_set(clique("a", 2100)))

        async def are_there() -> bool:
            return len(await place.names(PODS)) == 2100

        await eventually(are_there)
