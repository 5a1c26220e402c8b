"""Updates on a cluster with too little room for all of a set."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import NODES, settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.ground import NAMESPACE, PODS, Ground, ground
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


async def versions(place: Ground) -> dict[str, str]:
    """The version of each replica's pods."""
    return {
        pod["metadata"]["labels"][names.SET_REPLICA_INDEX]: pod["metadata"]["annotations"][
            "version"
        ]
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
        lost = next(
            each
            for each in await place.all(PODS)
            if each["metadata"]["labels"][names.POD_CLIQUE] == "sys-0-a"
        )
        await place.client.patch(NODES, lost["spec"]["nodeName"], {"spec": {"unschedulable": True}})
        await place.client.delete(PODS, lost["metadata"]["name"], NAMESPACE)
        await settle(20)
        await place.apply(a_set("2", "2"))
        await place.until(lambda each: each["observedGeneration"] == 3 and has_ended(each))
        assert (await place.status())["availableReplicas"] == 2
