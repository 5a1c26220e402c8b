"""The controller of sets alone, on an embedded cluster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import ResourceClaimTemplate, SetResourceSharing
from kilonova.kube.events import Recorder
from kilonova.kube.resource import plain
from kilonova.local.nodes import NO_NODES
from kilonova.workloads.caches import build_caches
from kilonova.workloads.means import Means
from kilonova.workloads.sets.controller import build_set_controller
from tests.local.embedded_cluster import LoopClock, eventually, gone, settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.ground import (
    CLAIMS,
    NAMESPACE,
    REVISIONS,
    SERVICES,
    SETS,
    Ground,
    ground,
    parts_running,
)

TEMPLATES = plain("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def sets_only(place: Ground) -> AsyncGenerator[None]:
    """Nobody but the controller of sets at work."""
    client, clock = place.cluster.client("operator"), LoopClock()
    caches = build_caches(client)
    recorder = Recorder(client, "sets", clock=clock.monotonic, wall=clock.now)
    controller = build_set_controller(
        Means(client, caches, recorder, now=clock.now, monotonic=clock.monotonic)
    )
    async with parts_running([*caches.parts, recorder], [controller]):
        yield


def service(name: str, index: int, owner: Any = None) -> Any:
    """What is labelled as an object of a replica; a set's own if that is its owner."""
    labels = {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "sys",
        names.SET_REPLICA_INDEX: str(index),
    }
    metadata: Any = {"name": name, "labels": labels}
    if owner is not None:
        known = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        kind = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}
        metadata["ownerReferences"] = [{**kind, **known, "controller": True}]
    return {"metadata": metadata, "spec": {"clusterIP": "None"}}


async def test_first_sight_of_a_set_makes_its_first_revision_and_no_update() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set(replicas=2))
        status = await place.until(lambda each: bool(each.get("currentGenerationHash")))
        assert "updateProgress" not in status
        assert status["observedGeneration"] == 1
        assert await place.names(REVISIONS) == [f"sys-{status['currentGenerationHash']}"]
        found = await place.client.get(SETS, "sys", NAMESPACE)
        assert found["metadata"]["finalizers"] == [names.SET_FINALIZER]


async def test_revision_that_somebody_deletes_comes_back() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set())
        status = await place.until(lambda each: bool(each.get("currentGenerationHash")))
        name = f"sys-{status['currentGenerationHash']}"
        await place.client.delete(REVISIONS, name, NAMESPACE)
        await eventually(lambda: _is_there(place, REVISIONS, name))


async def test_only_ten_revisions_that_nobody_needs_are_kept() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        for each in range(13):
            spec = pod_template(nodeSelector={"try": str(each)})
            await place.apply(pod_clique_set(clique("worker", pod_spec=spec)))
            await place.until(
                lambda status, each=each: status.get("observedGeneration") == each + 1
            )
        await settle()
        found = await place.all(REVISIONS)
        assert sorted(each["revision"] for each in found) == list(range(4, 14))


async def test_late_object_of_a_replica_that_there_is_no_more_is_deleted() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set(replicas=2))
        await place.until(lambda each: bool(each.get("currentGenerationHash")))
        set_ = await place.get(SETS, "sys")
        await place.client.create(SERVICES, service("sys-1", 1, set_), NAMESPACE)
        await place.client.create(SERVICES, service("sys-2", 2, set_), NAMESPACE)
        await gone(place.client, SERVICES, "sys-2")
        assert await place.get(SERVICES, "sys-1") is not None


async def test_object_of_somebody_else_is_left_alone_whatever_its_labels_say() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set(replicas=1))
        await place.until(lambda each: bool(each.get("currentGenerationHash")))
        await place.client.create(SERVICES, service("mine", 7), NAMESPACE)
        set_ = await place.get(SETS, "sys")
        await place.client.create(SERVICES, service("sys-7", 7, set_), NAMESPACE)
        await gone(place.client, SERVICES, "sys-7")
        await place.client.delete(SETS, "sys", NAMESPACE)
        await gone(place.client, SETS, "sys")
        assert await place.get(SERVICES, "mine") is not None


async def test_claims_of_the_whole_set_are_made_and_outlive_scale_to_zero() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    template = ResourceClaimTemplate("gpus", {"spec": {"devices": {"requests": [request]}}})
    sharing = SetResourceSharing("gpus", "AllReplicas")
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(
            pod_clique_set(
                replicas=0, resource_claim_templates=(template,), resource_sharing=(sharing,)
            )
        )
        await eventually(lambda: _is_there(place, CLAIMS, "sys-all-gpus"))


async def test_error_is_told_while_it_lasts_since_it_was_first_seen() -> None:
    sharing = SetResourceSharing("elsewhere", "AllReplicas")
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set(resource_sharing=(sharing,)))
        status = await place.until(lambda each: bool(each.get("lastErrors")))
        [error] = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_RESOURCE_CLAIMS"
        assert "elsewhere" in error["description"]
        await settle(20)
        assert (await place.status())["lastErrors"] == [error]
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        await place.client.create(
            TEMPLATES,
            {
                "metadata": {"name": "elsewhere"},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            },
            NAMESPACE,
        )
        await place.until(lambda each: not each.get("lastErrors"), within=600)
        assert await place.names(CLAIMS) == ["sys-all-elsewhere"]


async def test_deleted_set_is_gone_at_once() -> None:
    async with ground(fleet=NO_NODES) as place, sets_only(place):
        await place.apply(pod_clique_set())
        await place.until(lambda each: bool(each.get("currentGenerationHash")))
        await place.client.delete(SETS, "sys", NAMESPACE)
        await gone(place.client, SETS, "sys")
        await eventually(lambda: _is_empty(place))


async def _is_there(place: Ground, resource: Any, name: str) -> bool:
    return await place.get(resource, name) is not None


async def _is_empty(place: Ground) -> bool:
    return await place.left() == []
