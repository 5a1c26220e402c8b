"""Authorizes by roles and bindings, with a cache."""

from dataclasses import dataclass

from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes, AuthorizationDecision
from kilonova.local.apiserver.auth.go_quoting import go_quote
from kilonova.local.apiserver.auth.rbac.policy import (
    GROUP,
    RbacPolicy,
    RoleBindingRef,
    RoleRef,
    subject_keys,
)
from kilonova.local.apiserver.auth.rbac.rules import PolicyRule
from kilonova.local.apiserver.auth.user import MASTERS, User

_ALLOWED = AuthorizationDecision(allowed=True)
_MAX_CACHED_USERS = 1024
_MAX_CACHED_DECISIONS = 4096

_Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    """The decision for an action, independent of the object's name."""

    grants: tuple[tuple[_Names, AuthorizationDecision], ...]
    """Each with the object names that it applies to; None: all."""
    denial: AuthorizationDecision


class RbacAuthorizer:
    """Decides by a policy; decisions are cached for each user until the policy changes."""

    def __init__(self, policy: RbacPolicy) -> None:
        self.policy = policy
        self._cache: dict[
            tuple[str, tuple[str, ...]], dict[tuple[str | None, ...], _CachedDecision]
        ] = {}
        policy.on_change = self._cache.clear

    def authorize(self, user: User, action: AuthorizationAttributes) -> AuthorizationDecision:
        if MASTERS in user.groups:
            return _ALLOWED
        subject = (user.name, user.groups)
        decisions = self._cache.get(subject)
        if decisions is None:
            if len(self._cache) >= _MAX_CACHED_USERS:
                self._cache.clear()
            decisions = self._cache[subject] = {}
        cache_key = (
            action.verb,
            action.group,
            action.resource,
            action.subresource,
            action.namespace,
            action.path,
        )
        cached = decisions.get(cache_key)
        if cached is None:
            if len(decisions) >= _MAX_CACHED_DECISIONS:
                decisions.clear()
            cached = decisions[cache_key] = self._resolve(user, action)
        for names, verdict in cached.grants:
            if names is None or action.name in names:
                return verdict
        return cached.denial

    def _resolve(self, user: User, action: AuthorizationAttributes) -> _CachedDecision:
        keys = subject_keys(user)
        grants: list[tuple[_Names, AuthorizationDecision]] = []
        absent: list[RoleRef] = []
        for binding in self.policy.bindings_for(user, action.namespace):
            rules = self.policy.role_rules(binding.role, binding.namespace)
            if rules is None:
                absent.append(binding.role)
                continue
            for rule in rules:
                if rule.allows_ignoring_name(action):
                    reason = f"RBAC: allowed by {binding.describe(keys)}"
                    grants.append(
                        (
                            _allowed_names(rule, action),
                            AuthorizationDecision(allowed=True, reason=reason),
                        )
                    )
        reason = f"RBAC: {_list_missing_roles(absent)}" if absent else ""
        return _CachedDecision(tuple(grants), AuthorizationDecision(allowed=False, reason=reason))

    def rules_for(
        self, user: User, namespace: str
    ) -> tuple[list[PolicyRule], list[RoleBindingRef]]:
        """All rules of a user in a namespace, and the bindings to roles that do not exist."""
        rules: list[PolicyRule] = []
        broken: list[RoleBindingRef] = []
        for binding in self.policy.bindings_for(user, namespace):
            found = self.policy.role_rules(binding.role, binding.namespace)
            if found is None:
                broken.append(binding)
            else:
                rules += found
        return rules, broken


def missing_roles_message(bindings: list[RoleBindingRef], resource: str = "") -> str:
    """The message about bindings to roles that do not exist; empty if there are none.

    Kubernetes names the roles after the `resource` that is being written, if there is one.
    """
    return _list_missing_roles([binding.role for binding in bindings], resource)


def _list_missing_roles(roles: list[RoleRef], resource: str = "") -> str:
    texts = dict.fromkeys(
        f"{resource or role.kind.lower()}.{GROUP} {go_quote(role.name)} not found" for role in roles
    )
    return ", ".join(texts) if len(texts) < 2 else f"[{', '.join(texts)}]"


def _allowed_names(rule: PolicyRule, action: AuthorizationAttributes) -> _Names:
    if action.path is not None or not rule.resource_names:
        return None
    return frozenset(rule.resource_names)
