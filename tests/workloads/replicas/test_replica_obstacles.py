"""What is in a replica's way: an object that nobody finds any more, or that is not there yet."""

from typing import Any

import pytest

from kilonova.api.grove.podcliqueset import ResourceSharing
from kilonova.kube.resource import plain
from tests.local.embedded_cluster import eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    CLAIMS,
    CLIQUES,
    GANGS,
    GROUPS,
    NAMESPACE,
    SERVICES,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

CLAIM_TEMPLATES = plain(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)

pytestmark = pytest.mark.looptime


async def available(place: Ground) -> None:
    await place.until(lambda status: status.get("availableReplicas") == 1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SERVICES, "sys-0"),
        (GANGS, "sys-0"),
        (GROUPS, "sys-0-x"),
        (CLIQUES, "sys-0-a"),
        (CLIQUES, "sys-0-x-0-b"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_object_whose_labels_somebody_takes_away_gets_them_back(kind: Any, name: str) -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(pod_clique_set(clique("a"), clique("b"), groups=[group("x", "b")]))
        await available(place)
        await settle()
        before = (await place.get(kind, name))["metadata"]
        await place.client.patch(kind, name, {"metadata": {"labels": None}}, NAMESPACE)

        async def is_back() -> bool:
            found = await place.get(kind, name)
            return found is not None and found["metadata"].get("labels") == before["labels"]

        await eventually(is_back, within=15)
        assert (await place.get(kind, name))["metadata"]["uid"] == before["uid"]
        await available(place)
        await place.until(lambda status: not status.get("lastErrors"))


async def test_template_of_claims_that_comes_late_is_found_soon() -> None:
    set_ = pod_clique_set(clique("a", resource_sharing=(ResourceSharing("theirs", "PerReplica"),)))
    async with ground() as place, operating(place.cluster):
        await place.apply(set_)
        await settle(1000)
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
        body = {
            "metadata": {"name": "theirs"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await place.client.create(CLAIM_TEMPLATES, body, NAMESPACE)

        async def is_made() -> bool:
            return await place.names(CLAIMS) == ["sys-0-a-0-theirs"]

        await eventually(is_made, within=12)


async def test_clique_of_somebody_else_that_goes_late_is_made_soon() -> None:
    theirs = {
        "metadata": {"name": "sys-0-a"},
        "spec": {"roleName": "theirs", "replicas": 1, "podSpec": pod_template()},
    }
    async with ground() as place, operating(place.cluster):
        await place.client.create(CLIQUES, theirs, NAMESPACE)
        await place.apply(pod_clique_set(clique("a")))
        await settle(1000)
        assert (await place.get(CLIQUES, "sys-0-a"))["spec"]["roleName"] == "theirs"
        await place.client.delete(CLIQUES, "sys-0-a", NAMESPACE)
        await place.until(lambda status: status.get("availableReplicas") == 1, within=20)
