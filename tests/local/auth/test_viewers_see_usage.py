"""Whoever may view a namespace may also see what its pods use."""

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import eventually, running

ROLES = plain("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("name", ["view", "edit", "admin"])
async def test_the_roles_for_people_reach_metrics(name: str) -> None:
    async with running() as cluster:
        client = cluster.client("test")

        async def allowed() -> bool:
            rules = (await client.get(ROLES, name)).get("rules") or []
            return any("metrics.k8s.io" in rule.get("apiGroups", ()) for rule in rules)

        await eventually(allowed)
