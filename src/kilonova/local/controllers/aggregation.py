"""ClusterRoles that are made of others: their rules are those of all that they select."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Controller, Part, Reflector, Resource, Watch
from kilonova.kube.identity import Key
from kilonova.local.auth.rbac import Rule
from kilonova.local.controllers.workshop import Workshop
from kilonova.local.selectors import label_selector

_NAME = "clusterrole-aggregation-controller"


class AggregationRule(msgspec.Struct, frozen=True, rename="camel"):
    """Which roles a role is made of."""

    cluster_role_selectors: tuple[dict[str, Any], ...] | None = None


class ClusterRole(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a ClusterRole that this controller uses."""

    metadata: Metadata
    rules: tuple[Rule, ...] | None = None
    aggregation_rule: AggregationRule | None = None


CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole
)


def aggregation_parts(workshop: Workshop) -> Iterable[Part]:
    """clusterrole-aggregation-controller."""
    roles = Reflector(workshop.account(_NAME), CLUSTER_ROLES)
    return [roles, Aggregation(workshop.account(_NAME), roles).controller]


class Aggregation:
    """Writes the rules of roles that select others, whenever a role changes."""

    def __init__(self, client: Client, roles: Reflector[ClusterRole]) -> None:
        self._client = client
        self._roles = roles
        roles.store.add_index("aggregates", lambda role: [True] if role.aggregation_rule else [])
        self.controller = Controller(_NAME, self._reconcile, [Watch(roles, self._aggregates)])

    def _aggregates(self, changed: ClusterRole) -> list[Key]:
        """There are few of them, and any may select the role that changed, or did before."""
        found = self._roles.store.find("aggregates", True)
        return [("", role.metadata.name) for role in found]

    async def _reconcile(self, key: Key) -> None:
        role = self._roles.store.get(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = gathered(role, self._roles.store.objects())
        if rules == list(role.rules or ()):
            return
        body: JsonObject = {"rules": msgspec.to_builtins(rules)}
        await self._client.apply(CLUSTER_ROLES, role.metadata.name, body)


def gathered(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[Rule]:
    """The rules of the roles that `role` selects, by selector and name, each once."""
    others = sorted(
        (each for each in roles if each.metadata.name != role.metadata.name),
        key=lambda each: each.metadata.name,
    )
    selectors = role.aggregation_rule and role.aggregation_rule.cluster_role_selectors
    found: dict[Rule, None] = {}
    for selector in selectors or ():
        matches = label_selector(selector).matches
        for other in others:
            if matches(other.metadata.labels):
                found.update(dict.fromkeys(other.rules or ()))
    return list(found)
