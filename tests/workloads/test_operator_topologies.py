"""ClusterTopologyBindings beside topologies that a scheduler has of its own."""

from typing import Any

import pytest

from kilonova.kube.resource import plain
from kilonova.local.nodes import NO_NODES
from tests.local.embedded_cluster import DEFINITIONS, definition, eventually, settle
from tests.workloads.ground import TOPOLOGIES, Ground, ground
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

KAI = plain("kai.scheduler", "v1alpha1", "topologies", "Topology", False)


def binding(*schedulers: str) -> Any:
    refers = [{"schedulerName": each, "topologyReference": "theirs"} for each in schedulers]
    levels = [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}]
    return {
        "metadata": {"name": "plant"},
        "spec": {"levels": levels, "schedulerTopologyBindings": refers},
    }


def kai(*labels: str) -> Any:
    return {
        "metadata": {"name": "theirs"},
        "spec": {"levels": [{"nodeLabel": each} for each in labels]},
    }


async def drift(place: Ground) -> str:
    """Status and reason of the condition."""
    found = (await place.client.get(TOPOLOGIES, "plant")).get("status", {})
    own = [each for each in found.get("conditions", ()) if each["type"] == "SchedulerTopologyDrift"]
    return f"{own[0]['status']} {own[0]['reason']}" if own else ""


async def becomes(place: Ground, wanted: str) -> None:
    async def so() -> bool:
        return await drift(place) == wanted

    await eventually(so, within=120)


async def test_binding_that_refers_to_nothing_has_no_drift() -> None:
    async with ground(fleet=NO_NODES) as place, operating(place.cluster):
        await place.client.create(TOPOLOGIES, binding())
        await settle()
        status = (await place.client.get(TOPOLOGIES, "plant"))["status"]
        assert status["observedGeneration"] == 1
        assert await drift(place) == ""


async def test_drift_is_told_as_it_comes_and_goes() -> None:
    async with ground(fleet=NO_NODES) as place, operating(place.cluster):
        await place.client.create(TOPOLOGIES, binding("kai-scheduler"))
        await becomes(place, "True Drift")
        served = definition("kai.scheduler", "Topology", "topologies", scope="Cluster")
        served["spec"]["versions"][0]["name"] = "v1alpha1"
        await place.client.create(DEFINITIONS, served)
        await settle()
        await place.client.create(KAI, kai("z"))

        async def levels_differ() -> bool:
            status = (await place.client.get(TOPOLOGIES, "plant"))["status"]
            [one] = status["schedulerTopologyStatuses"]
            assert one["inSync"] is False
            return one["message"] == "topology 'theirs' has levels z instead of z, r"

        await eventually(levels_differ, within=120)
        assert await drift(place) == "True Drift"
        await place.client.patch(KAI, "theirs", {"spec": kai("z", "r")["spec"]})
        await becomes(place, "False InSync")
        await place.client.delete(KAI, "theirs")
        await becomes(place, "True Drift")


async def test_scheduler_without_topologies_of_its_own_is_said_to_have_none() -> None:
    async with ground(fleet=NO_NODES) as place, operating(place.cluster):
        await place.client.create(TOPOLOGIES, binding("volcano"))
        await becomes(place, "Unknown TopologyNotFound")
        [one] = (await place.client.get(TOPOLOGIES, "plant"))["status"]["schedulerTopologyStatuses"]
        assert "only kai-scheduler has" in one["message"]
