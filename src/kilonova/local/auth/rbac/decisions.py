"""Deciding by roles and bindings, quickly the second time."""

from dataclasses import dataclass

from kilonova.local.auth.authorizer import Action, Verdict
from kilonova.local.auth.rbac.policy import GROUP, Binding, Policy, RoleRef, keys_of
from kilonova.local.auth.rbac.rules import Rule
from kilonova.local.auth.user import MASTERS, User
from kilonova.local.auth.words import quoted

_ALLOWED = Verdict(allowed=True)
_KEPT_USERS = 1024
_KEPT_ACTIONS = 4096

_Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is known of an action but for the name of its object."""

    grants: tuple[tuple[_Names, Verdict], ...]
    """Each with the names that it is for; None: all."""
    refusal: Verdict


class Rbac:
    """Decides by a policy; what it found is kept for each user until the policy changes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._kept: dict[tuple[str, tuple[str, ...]], dict[tuple[str | None, ...], _Answer]] = {}
        policy.on_change = self._kept.clear

    def decide(self, user: User, action: Action) -> Verdict:
        if MASTERS in user.groups:
            return _ALLOWED
        who = (user.name, user.groups)
        answers = self._kept.get(who)
        if answers is None:
            if len(self._kept) >= _KEPT_USERS:
                self._kept.clear()
            answers = self._kept[who] = {}
        what = (
            action.verb,
            action.group,
            action.resource,
            action.subresource,
            action.namespace,
            action.path,
        )
        answer = answers.get(what)
        if answer is None:
            if len(answers) >= _KEPT_ACTIONS:
                answers.clear()
            answer = answers[what] = self._answer(user, action)
        for names, verdict in answer.grants:
            if names is None or action.name in names:
                return verdict
        return answer.refusal

    def _answer(self, user: User, action: Action) -> _Answer:
        keys = keys_of(user)
        grants: list[tuple[_Names, Verdict]] = []
        absent: list[RoleRef] = []
        for binding in self.policy.bindings(user, action.namespace):
            rules = self.policy.rules(binding.role, binding.namespace)
            if rules is None:
                absent.append(binding.role)
                continue
            for rule in rules:
                if rule.allows_but_for_name(action):
                    reason = f"RBAC: allowed by {binding.described(keys)}"
                    grants.append((_names(rule, action), Verdict(allowed=True, reason=reason)))
        reason = f"RBAC: {_absences(absent)}" if absent else ""
        return _Answer(tuple(grants), Verdict(allowed=False, reason=reason))

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[Binding]]:
        """Every rule that a user has in a namespace, and the bindings to roles that are none."""
        rules: list[Rule] = []
        broken: list[Binding] = []
        for binding in self.policy.bindings(user, namespace):
            found = self.policy.rules(binding.role, binding.namespace)
            if found is None:
                broken.append(binding)
            else:
                rules += found
        return rules, broken


def trouble(broken: list[Binding], resource: str = "") -> str:
    """The sentence on bindings to roles that are none; empty without any.

    Kubernetes calls the roles by the name of the `resource` that is being written, if any is.
    """
    return _absences([binding.role for binding in broken], resource)


def _absences(roles: list[RoleRef], resource: str = "") -> str:
    texts = dict.fromkeys(
        f"{resource or role.kind.lower()}.{GROUP} {quoted(role.name)} not found" for role in roles
    )
    return ", ".join(texts) if len(texts) < 2 else f"[{', '.join(texts)}]"


def _names(rule: Rule, action: Action) -> _Names:
    if action.path is not None or not rule.resource_names:
        return None
    return frozenset(rule.resource_names)
