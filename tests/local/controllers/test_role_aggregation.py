"""ClusterRoles that are made of others."""

from typing import Any

import pytest

from kilonova.api.meta import Metadata
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.local.auth.rbac import Rule
from kilonova.local.controllers.aggregation import AggregationRule, ClusterRole, gathered
from tests.local.embedded_cluster import eventually, running

ROLES = plain("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
GET, LIST = Rule(("get",), ("",), ("pods",)), Rule(("list",), ("",), ("pods",))


def role(name: str, *rules: Rule, select: Any = None, **labels: str) -> ClusterRole:
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
def test_rules_are_gathered_once_in_order(
    select: list[Any], others: list[ClusterRole], rules: list[Rule]
) -> None:
    assert gathered(role("whole", select=select), others) == rules


@pytest.mark.looptime
async def test_a_role_follows_those_that_it_is_made_of() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        part = {"metadata": {"name": "part", "labels": {"in": "whole"}}}
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
        selectors = [{"matchLabels": {"in": "whole"}}]
        whole = {"aggregationRule": {"clusterRoleSelectors": selectors}}
        await client.create(ROLES, {"metadata": {"name": "whole"}, **whole})
        await client.create(ROLES, {**part, "rules": [rule]})
        await holds(client, [rule])
        await client.patch(ROLES, "part", {"metadata": {"labels": {"in": None}}})
        await holds(client, [])
        edit = await client.get(ROLES, "edit")
        assert any("deployments" in each.get("resources", []) for each in edit["rules"])


async def holds(client: Client, rules: list[Any]) -> None:
    async def there() -> bool:
        return ((await client.get(ROLES, "whole")).get("rules") or []) == rules

    await eventually(there)
