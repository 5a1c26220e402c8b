"""What is in a replica's way: an object that nobody finds any more, or that is not there yet."""

from typing import Any

import pytest

from tests.local.embedded_cluster import eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.ground import CLIQUES, GANGS, GROUPS, NAMESPACE, SERVICES, Ground, ground
from tests.workloads.operator_cluster import operating

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
