"""What people should not have written or taken away, and what the operator makes of it."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import IN_ORDER
from tests.local.embedded_cluster import NODES, eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import CLIQUES, GROUPS, NAMESPACE, PODS, Ground, ground
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

SPEC = pod_template(terminationGracePeriodSeconds=1)


async def up(place: Ground, set_: Any) -> None:
    """Have a set, and wait until it is well."""
    await place.apply(set_)
    await place.until(lambda status: status.get("availableReplicas") == 1)
    await settle(5)


async def test_a_template_does_not_say_how_often_a_clique_was_started_anew() -> None:
    async with ground() as place, operating(place.cluster):
        template = clique("front", pod_spec=SPEC, annotations={names.INCARNATION: "5"})
        await up(place, pod_clique_set(template, termination_delay="10s"))
        for node in (await place.client.list(NODES)).items:
            patch = {"spec": {"unschedulable": True}}
            await place.client.patch(NODES, node["metadata"]["name"], patch)
        (pod,) = await place.names(PODS)
        await place.client.delete(PODS, pod, NAMESPACE)

        async def is_anew() -> bool:
            found = (await place.get(CLIQUES, "sys-0-front"))["metadata"]
            return found.get("annotations") == {names.INCARNATION: "1"}

        await eventually(is_anew)
        version = (await place.get(CLIQUES, "sys-0-front"))["metadata"]["generation"]
        await settle(60)
        assert await is_anew()
        assert (await place.get(CLIQUES, "sys-0-front"))["metadata"]["generation"] == version


@pytest.mark.parametrize("label", [names.POD_CLIQUE, names.MANAGED_BY])
async def test_a_pod_gets_the_labels_back_that_it_is_found_by(label: str) -> None:
    async with ground() as place, operating(place.cluster):
        await up(place, pod_clique_set(clique("front", 2, pod_spec=SPEC)))
        before = await place.all(PODS)
        name = before[0]["metadata"]["name"]
        await place.client.patch(PODS, name, {"metadata": {"labels": {label: None}}}, NAMESPACE)

        async def is_as_before() -> bool:
            labels = (await place.get(PODS, name))["metadata"]["labels"]
            return labels == before[0]["metadata"]["labels"]

        await eventually(is_as_before)
        await place.until(lambda status: status.get("availableReplicas") == 1)
        await settle(5)
        assert [each["metadata"]["uid"] for each in await place.all(PODS)] == [
            each["metadata"]["uid"] for each in before
        ]


async def test_nobody_waits_for_what_a_group_was_scaled_below() -> None:
    async with ground() as place, operating(place.cluster):
        cliques = clique("hand", pod_spec=SPEC), clique("front", pod_spec=SPEC)
        team = group("team", "hand", replicas=1)
        await up(place, pod_clique_set(*cliques, groups=[team], startup=IN_ORDER))
        for replicas in (0, 1):
            await place.client.set_scale(GROUPS, "sys-0-team", NAMESPACE, replicas)
            await settle(5)
            before = await front_pod(place)
            await place.client.delete(PODS, before["metadata"]["name"], NAMESPACE)
            await until_front_is_new(place, before)


async def test_who_waits_already_goes_on_when_the_group_is_scaled() -> None:
    async with ground() as place, operating(place.cluster):
        stuck = pod_template(schedulingGates=[{"name": "mine"}])
        cliques = clique("hand", pod_spec=stuck), clique("front", pod_spec=SPEC)
        team = group("team", "hand", replicas=1)
        await place.apply(pod_clique_set(*cliques, groups=[team], startup=IN_ORDER))
        await settle(20)
        waiting = await front_pod(place)
        assert names.RELEASED not in waiting["metadata"].get("annotations", {})
        await place.client.set_scale(GROUPS, "sys-0-team", NAMESPACE, 0)

        async def released() -> bool:
            return names.RELEASED in (await front_pod(place))["metadata"].get("annotations", {})

        await eventually(released)


async def front_pod(place: Ground) -> Any:
    """The pod of the clique that starts last."""
    pods = await place.all(PODS)
    (found,) = [each for each in pods if not each["metadata"]["name"].startswith("sys-0-team")]
    return found


async def until_front_is_new(place: Ground, before: Any) -> None:
    """Wait until another pod than before is ready."""

    async def is_new() -> bool:
        pods = [each for each in await place.all(PODS) if "front" in each["metadata"]["name"]]
        ready = [
            each["metadata"]["uid"]
            for each in pods
            for condition in each["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]
        return bool(ready) and before["metadata"]["uid"] not in ready

    await eventually(is_new)
