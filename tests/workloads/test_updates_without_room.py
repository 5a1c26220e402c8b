"""Updates on a cluster with too little room for all of a set."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from kilonova.local.nodes.lives import IMAGE_PULL
from tests.local.embedded_cluster import NODES, settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.ground import CLIQUES, NAMESPACE, PODS, Ground, ground
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


def big(name: str, version: str, count: int = 1) -> Any:
    """A clique of pods that fill a node each, one of which must be up."""
    spec = pod_template(terminationGracePeriodSeconds=1)
    spec["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
    return clique(name, count, 1, pod_spec=spec, annotations={"version": version})


def nodes(count: int) -> Fleet:
    return Fleet((NodeGroup("node", count),))


def has_ended(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def version(pod: Any) -> str:
    return pod["metadata"]["annotations"]["version"]


async def versions(place: Ground) -> dict[str, str]:
    """The version of each replica's pods."""
    return {
        pod["metadata"]["labels"][names.SET_REPLICA_INDEX]: version(pod)
        for pod in await place.all(PODS)
    }


async def test_replica_without_room_holds_up_no_other() -> None:
    async with ground(fleet=nodes(2)) as place, operating(place.cluster):
        await place.apply(pod_clique_set(big("front", "1"), replicas=3))
        await place.until(lambda status: status.get("availableReplicas") == 2)
        await settle(30)
        await place.apply(pod_clique_set(big("front", "2"), replicas=3))
        await place.until(has_ended, within=600)
        assert await versions(place) == {"0": "2", "1": "2", "2": "2"}
        await place.until(lambda status: status["availableReplicas"] == 2)


async def test_pod_lost_since_an_earlier_update_holds_up_no_later_one() -> None:
    def a_set(a: str, b: str) -> Any:
        small = pod_template(terminationGracePeriodSeconds=1)
        other = clique("b", pod_spec=small, annotations={"version": b})
        return pod_clique_set(big("a", a, 2), other, replicas=2)

    async with ground(fleet=nodes(4)) as place, operating(place.cluster):
        await place.apply(a_set("1", "1"))
        await place.until(lambda status: status.get("availableReplicas") == 2)
        await settle(5)
        await place.apply(a_set("2", "1"))
        await place.until(has_ended)
        await settle(5)
        await lose(place, "sys-0-a")
        await place.apply(a_set("2", "2"))
        await place.until(lambda each: each["observedGeneration"] == 3 and has_ended(each))
        assert (await place.status())["availableReplicas"] == 2


async def test_pods_beyond_those_needed_that_have_no_room_hold_up_no_update() -> None:
    async with ground(fleet=nodes(1)) as place, operating(place.cluster):
        await place.apply(pod_clique_set(big("a", "1", 3)))
        await place.until(lambda status: status.get("availableReplicas") == 1)
        await settle(20)
        await place.apply(pod_clique_set(big("a", "2", 3)))
        await place.until(has_ended)
        assert {version(each) for each in await place.all(PODS)} == {"2"}
        await place.until(lambda status: status["availableReplicas"] == 1)


async def test_replica_that_only_misses_some_nodes_holds_up_no_other() -> None:
    def a_set(version: str) -> Any:
        small = pod_template(terminationGracePeriodSeconds=1)
        other = clique("b", pod_spec=small, annotations={"version": version})
        return pod_clique_set(big("a", version), other, replicas=2)

    async with ground(fleet=nodes(2)) as place, operating(place.cluster):
        await place.apply(a_set("1"))
        await place.until(lambda status: status.get("availableReplicas") == 2)
        await settle(5)
        await lose(place, "sys-1-a")
        await place.apply(a_set("2"))
        await place.until(has_ended)
        assert await versions(place) == {"0": "2", "1": "2"}


async def test_bad_update_of_a_set_with_a_broken_replica_takes_no_other_down() -> None:
    async with ground(fleet=nodes(2)) as place, operating(place.cluster):
        await place.apply(pod_clique_set(big("a", "1"), replicas=2))
        await place.until(lambda status: status.get("availableReplicas") == 2)
        await settle(5)
        node = await lose(place, "sys-0-a")
        await place.client.patch(NODES, node, {"spec": {"unschedulable": False}})
        bad = clique(
            "a",
            pod_spec=big("a", "2").spec.pod_spec,
            annotations={"version": "2", IMAGE_PULL: "error"},
        )
        await place.apply(pod_clique_set(bad, replicas=2))
        await settle(120)
        assert await versions(place) == {"0": "2", "1": "1"}
        assert (await place.status())["availableReplicas"] == 1


async def test_clique_scaled_to_nothing_does_not_let_all_replicas_go_at_once() -> None:
    def a_set(version: str) -> Any:
        idle = big("idle", "1")
        idle.spec.pod_spec["nodeSelector"] = {"no": "such"}
        return pod_clique_set(big("a", version), idle, replicas=3)

    async with ground(fleet=nodes(3)) as place, operating(place.cluster):
        await place.apply(a_set("1"))
        await settle(5)
        for name in ("sys-0-idle", "sys-1-idle", "sys-2-idle"):
            await place.client.patch(CLIQUES, name, {"spec": {"replicas": 0}}, NAMESPACE)
        await place.until(lambda status: status.get("availableReplicas") == 3)
        await settle(5)
        least = 3

        def ends(status: Any) -> bool:
            nonlocal least
            least = min(least, status["availableReplicas"])
            return has_ended(status)

        await place.apply(a_set("2"))
        await place.until(ends)
        assert least == 2


async def lose(place: Ground, clique_name: str) -> str:
    """Take a pod and its node from a clique; the name of the node."""
    lost = next(
        each
        for each in await place.all(PODS)
        if each["metadata"]["labels"][names.POD_CLIQUE] == clique_name
    )
    node = lost["spec"]["nodeName"]
    await place.client.patch(NODES, node, {"spec": {"unschedulable": True}})
    await place.client.delete(PODS, lost["metadata"]["name"], NAMESPACE)
    await settle(20)
    return node
