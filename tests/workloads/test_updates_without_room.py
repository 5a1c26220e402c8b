"""Updates on a cluster with too little room for all of a set."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from kilonova.local.nodes.lives import IMAGE_PULL
from tests.local.embedded_cluster import NODES, eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import CLIQUES, GROUPS, NAMESPACE, PODS, Ground, ground
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


@pytest.mark.parametrize("edited", ["a", "b"])
async def test_unit_without_room_since_before_an_update_does_not_hold_it_up(edited: str) -> None:
    async with three_units() as place:
        await lose(place, "sys-0-g-2-a")
        await place.apply(units(**{edited: "2"}))
        await place.until(has_ended, within=300)
        found = [each for each in await place.all(PODS) if clique_of(each).endswith(edited)]
        assert {version(each) for each in found} == {"2"}
        assert (await group_status(place))["availableReplicas"] == 2


async def test_ru10_unit_that_an_update_costs_its_node_is_the_only_one() -> None:
    async with three_units() as place:
        for node in (await place.client.list(NODES)).items:
            patch = {"spec": {"unschedulable": True}}
            await place.client.patch(NODES, node["metadata"]["name"], patch)
        for then in ("2", "3"):
            await place.apply(units(a=then))
            await settle(120)
            assert (await group_status(place))["availableReplicas"] == 2
            assert not has_ended(await place.status())


def units(a: str = "1", b: str = "1") -> Any:
    """Three units of which one must be up, and a clique alone."""
    small = pod_template(terminationGracePeriodSeconds=1)
    other = clique("b", pod_spec=small, annotations={"version": b})
    return pod_clique_set(big("a", a), other, groups=[group("g", "a", replicas=3)])


@asynccontextmanager
async def three_units() -> AsyncGenerator[Ground]:
    async with ground(fleet=nodes(3)) as place, operating(place.cluster):
        await place.apply(units())

        async def are_up() -> bool:
            return (await group_status(place)).get("availableReplicas") == 3

        await eventually(are_up)
        await settle(5)
        yield place


async def group_status(place: Ground) -> Any:
    return ((await place.get(GROUPS, "sys-0-g")) or {}).get("status", {})


def clique_of(pod: Any) -> str:
    return pod["metadata"]["labels"][names.POD_CLIQUE]


async def lose(place: Ground, clique_name: str) -> str:
    """Take a pod and its node from a clique; the name of the node."""
    lost = next(each for each in await place.all(PODS) if clique_of(each) == clique_name)
    node = lost["spec"]["nodeName"]
    await place.client.patch(NODES, node, {"spec": {"unschedulable": True}})
    await place.client.delete(PODS, lost["metadata"]["name"], NAMESPACE)
    await settle(20)
    return node
