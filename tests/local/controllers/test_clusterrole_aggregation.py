"""Aggregated ClusterRoles."""

from typing import Any

import pytest

from kilonova.api.meta import Metadata
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.controllers.clusterrole_aggregation import (
    AggregationRule,
    ClusterRole,
    aggregate_rules,
)
from kilonova.local.objects.rbac import PolicyRuleFields
from tests.local.embedded_cluster import run_cluster, wait_for_condition

ROLES = unstructured_resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False
)
GET, LIST = (
    PolicyRuleFields(("get",), ("",), ("pods",)),
    PolicyRuleFields(("list",), ("",), ("pods",)),
)


def role(name: str, *rules: PolicyRuleFields, select: Any = None, **labels: str) -> ClusterRole:
    aggregation = None if select is None else AggregationRule(tuple(select))
    return ClusterRole(Metadata(name, "u", "1", labels=labels), rules, aggregation)


@pytest.mark.parametrize(
    ("select", "others", "rules"),
    [
        ([], [role("a", GET)], []),
        ([{"matchLabels": {"in": "x"}}], [role("a", GET, **{"in": "x"}), role("b", LIST)], [GET]),
        ([{}], [role("b", GET), role("a", LIST), role("c", GET)], [LIST, GET]),
        (
            [{"matchLabels": {"in": "y"}}, {"matchLabels": {"in": "x"}}],
            [role("a", GET, **{"in": "x"}), role("b", LIST, **{"in": "y"})],
            [LIST, GET],
        ),
        ([{}], [role("whole", LIST)], []),
    ],
)
def test_rules_are_aggregated_in_order_without_duplicates(
    select: list[Any], others: list[ClusterRole], rules: list[PolicyRuleFields]
) -> None:
    assert aggregate_rules(role("whole", select=select), others) == rules


@pytest.mark.looptime
async def test_aggregated_role_follows_its_selected_roles() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        part = {"metadata": {"name": "part", "labels": {"in": "whole"}}}
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
        selectors = [{"matchLabels": {"in": "whole"}}]
        whole = {"aggregationRule": {"clusterRoleSelectors": selectors}}
        await client.create(ROLES, {"metadata": {"name": "whole"}, **whole})
        await client.create(ROLES, {**part, "rules": [rule]})
        await has_rules(client, [rule])
        await client.patch(ROLES, "part", {"metadata": {"labels": {"in": None}}})
        await has_rules(client, [])
        edit = await client.get(ROLES, "edit")
        assert any("deployments" in each.get("resources", []) for each in edit["rules"])


async def has_rules(client: Client, rules: list[Any]) -> None:
    async def there() -> bool:
        return ((await client.get(ROLES, "whole")).get("rules") or []) == rules

    await wait_for_condition(there)
