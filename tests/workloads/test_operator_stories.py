"""Stories of whole sets on an embedded cluster: from apply to nothing left."""

from typing import Any

import pytest

from kilonova.api.grove import CliqueTemplate, PodCliqueSet
from tests.local.embedded_cluster import eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    CLIQUES,
    GANGS,
    GROUPS,
    NAMESPACE,
    PODS,
    REVISIONS,
    SERVICES,
    SETS,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


def system(replicas: int, version: str = "1", **fields: Any) -> PodCliqueSet:
    """A leader, and groups of a head and two hands."""

    def part(name: str, count: int = 1) -> CliqueTemplate:
        spec = pod_template(nodeSelector={}, terminationGracePeriodSeconds=1)
        return clique(name, count, pod_spec=spec, annotations={"version": version})

    return pod_clique_set(
        part("leader"),
        part("head"),
        part("hand", 2),
        groups=[group("team", "head", "hand", replicas=2, min_available=1)],
        replicas=replicas,
        **fields,
    )


PODS_EACH = 7


def is_available(replicas: int) -> Any:
    def holds(status: Any) -> bool:
        counts = (status.get("replicas"), status.get("availableReplicas"))
        return counts == (replicas, replicas) and status.get("updatedReplicas") == replicas

    return holds


async def test_set_is_applied_scaled_updated_and_deleted_and_nothing_is_left() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(system(3))
        await place.until(is_available(3))
        assert len(await place.names(PODS)) == 3 * PODS_EACH
        assert await place.names(GANGS) == [
            each for i in range(3) for each in (f"sys-{i}", f"sys-{i}-team-0")
        ]
        for replicas in (5, 2, 0, 1):
            await place.client.set_scale(SETS, "sys", NAMESPACE, replicas)
            await place.until(is_available(replicas))
            await eventually(lambda count=replicas * PODS_EACH: _has_pods(place, count))
            await settle()
            assert await place.names(CLIQUES) == sorted(_cliques(replicas))
            assert await place.names(GROUPS) == [f"sys-{i}-team" for i in range(replicas)]
            assert len(await place.names(GANGS)) == 2 * replicas
            assert await place.names(SERVICES) == [
                "kubernetes",
                *(f"sys-{i}" for i in range(replicas)),
            ]
        await place.apply(system(1, version="2"))
        await place.until(has_ended)
        await eventually(lambda: _all_pods_are(place, "2"))
        assert len(await place.names(PODS)) == PODS_EACH
        assert len(await place.names(REVISIONS)) == 2
        await place.client.delete(SETS, "sys", NAMESPACE)
        await eventually(lambda: _is_empty(place))
        await settle(60)
        assert await place.left() == []


def has_ended(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def _cliques(replicas: int) -> list[str]:
    return [
        name
        for i in range(replicas)
        for name in (
            f"sys-{i}-leader",
            *(f"sys-{i}-team-{j}-{each}" for j in range(2) for each in ("head", "hand")),
        )
    ]


async def _has_pods(place: Ground, count: int) -> bool:
    return len(await place.names(PODS)) == count


async def _is_empty(place: Ground) -> bool:
    return await place.left() == []


async def _all_pods_are(place: Ground, version: str) -> bool:
    pods = await place.all(PODS)
    return {each["metadata"]["annotations"]["version"] for each in pods} == {version}
