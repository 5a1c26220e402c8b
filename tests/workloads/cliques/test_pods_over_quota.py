"""Pods that a quota refuses."""

from typing import Any

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import settle
from tests.workloads.builders import clique, pod_clique_set
from tests.workloads.ground import CLIQUES, NAMESPACE, PODS, ground
from tests.workloads.operator_cluster import operating

QUOTAS = plain("", "v1", "resourcequotas", "ResourceQuota", True)

pytestmark = pytest.mark.looptime


async def test_pods_that_a_quota_refused_are_made_soon_after_it_is_gone() -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    async with ground() as place, operating(place.cluster):
        await place.client.create(QUOTAS, quota, NAMESPACE)
        await settle(5)
        await place.apply(pod_clique_set(clique("a", 3)))
        await settle(1000)
        assert len(await place.all(PODS)) == 1
        (error,) = (await place.get(CLIQUES, "sys-0-a"))["status"]["lastErrors"]
        assert "exceeded quota" in error["description"]
        await place.client.delete(QUOTAS, "few", NAMESPACE)

        def is_well(status: Any) -> bool:
            return status.get("availableReplicas") == 1

        await place.until(is_well, within=30)
