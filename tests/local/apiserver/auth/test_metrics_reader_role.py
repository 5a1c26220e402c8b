"""Users who may view a namespace may also read the metrics of its pods."""

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import run_cluster, wait_for_condition

ROLES = unstructured_resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False
)

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("name", ["view", "edit", "admin"])
async def test_aggregated_roles_include_metrics(name: str) -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")

        async def allowed() -> bool:
            rules = (await client.get(ROLES, name)).get("rules") or []
            return any("metrics.k8s.io" in rule.get("apiGroups", ()) for rule in rules)

        await wait_for_condition(allowed)
