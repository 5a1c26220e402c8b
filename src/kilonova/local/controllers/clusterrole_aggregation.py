"""Aggregated ClusterRoles: their rules are those of all ClusterRoles that they select."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Controller, Reflector, Resource, Runnable, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.objects.rbac import PolicyRuleFields

_NAME = "clusterrole-aggregation-controller"


class AggregationRule(msgspec.Struct, frozen=True, rename="camel"):
    """The selectors of the roles to aggregate."""

    cluster_role_selectors: tuple[dict[str, Any], ...] | None = None


class ClusterRole(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a ClusterRole that this controller uses."""

    metadata: Metadata
    rules: tuple[PolicyRuleFields, ...] | None = None
    aggregation_rule: AggregationRule | None = None


CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole
)


def role_aggregation_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """clusterrole-aggregation-controller."""
    roles = Reflector(context.client_for(_NAME), CLUSTER_ROLES)
    return [roles, ClusterRoleAggregationController(context.client_for(_NAME), roles).controller]


class ClusterRoleAggregationController:
    """Writes the rules of aggregated roles whenever a role changes."""

    def __init__(self, client: Client, roles: Reflector[ClusterRole]) -> None:
        self._client = client
        self._roles = roles
        roles.store.add_index("aggregates", lambda role: [True] if role.aggregation_rule else [])
        self.controller = Controller(
            _NAME, self._reconcile, [Watch(roles, self._enqueue_aggregated_roles)]
        )

    def _enqueue_aggregated_roles(self, changed: ClusterRole) -> list[Key]:
        """All of them: they are few, and any may select the changed role, or did before."""
        found = self._roles.store.by_index("aggregates", True)
        return [("", role.metadata.name) for role in found]

    async def _reconcile(self, key: Key) -> None:
        role = self._roles.store.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = aggregate_rules(role, self._roles.store.objects())
        if rules == list(role.rules or ()):
            return
        body: JsonObject = {"rules": msgspec.to_builtins(rules)}
        await self._client.apply(CLUSTER_ROLES, role.metadata.name, body)


def aggregate_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRuleFields]:
    """The rules of the roles that `role` selects, by selector and name, without duplicates."""
    others = sorted(
        (each for each in roles if each.metadata.name != role.metadata.name),
        key=lambda each: each.metadata.name,
    )
    selectors = role.aggregation_rule and role.aggregation_rule.cluster_role_selectors
    found: dict[PolicyRuleFields, None] = {}
    for selector in selectors or ():
        matches = selector_from_object(selector).matches
        for other in others:
            if matches(other.metadata.labels):
                found.update(dict.fromkeys(other.rules or ()))
    return list(found)
