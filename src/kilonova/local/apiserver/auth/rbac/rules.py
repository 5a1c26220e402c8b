"""Policy rules, and how they compare with actions and with each other. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes
from kilonova.local.apiserver.auth.go_quoting import go_quote_list
from kilonova.local.objects.rbac import PolicyRuleFields

ALL = "*"


class PolicyRule(PolicyRuleFields, frozen=True):
    """A rule that can be evaluated."""

    def allows(self, action: AuthorizationAttributes) -> bool:
        """Whether this rule alone allows the action."""
        if not self.allows_ignoring_name(action):
            return False
        by_name = action.path is None and self.resource_names
        return not by_name or action.name in self.resource_names

    def allows_ignoring_name(self, action: AuthorizationAttributes) -> bool:
        """Whether it allows the action on some object."""
        if ALL not in self.verbs and action.verb not in self.verbs:
            return False
        if action.path is not None:
            return any(_path_covers(path, action.path) for path in self.non_resource_urls)
        if ALL not in self.api_groups and action.group not in self.api_groups:
            return False
        resources = self.resources
        return (
            ALL in resources
            or action.qualified_resource in resources
            or (action.subresource != "" and f"*/{action.subresource}" in resources)
        )

    def __str__(self) -> str:
        """As rejections list it."""
        parts = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.non_resource_urls),
            ("ResourceNames", self.resource_names),
            ("Verbs", self.verbs),
        )
        return (
            "{" + ", ".join(f"{name}:{go_quote_list(each)}" for name, each in parts if each) + "}"
        )


def uncovered_rules(held: Sequence[PolicyRule], required: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What `required` allows and `held` does not, in rules of one verb on one resource."""
    return [
        each
        for rule in required
        if rule not in held  # the usual case of stored roles
        for each in _break_down(rule)
        if not any(_covers_rule(own, each) for own in held)
    ]


def format_rules(rules: Iterable[PolicyRule]) -> list[str]:
    """Rules as rejections list them: those on the same resource are combined."""
    together: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    others: list[PolicyRule] = []
    for rule in rules:
        simple = len(rule.api_groups) == len(rule.resources) == 1 and not rule.non_resource_urls
        if simple and len(rule.resource_names) < 2:
            key = (rule.api_groups, rule.resources, rule.resource_names)
            together.setdefault(key, []).extend(rule.verbs)
        else:
            others.append(rule)
    joined = [PolicyRule(tuple(verbs), *key) for key, verbs in together.items()]
    return sorted({str(rule) for rule in (*others, *joined)})


def _break_down(rule: PolicyRule) -> Iterator[PolicyRule]:
    names = [(name,) for name in rule.resource_names] or [()]
    for group, resource, verb, name in product(rule.api_groups, rule.resources, rule.verbs, names):
        yield PolicyRule((verb,), (group,), (resource,), name)
    for path, verb in product(rule.non_resource_urls, rule.verbs):
        yield PolicyRule((verb,), non_resource_urls=(path,))


def _covers_rule(rule: PolicyRule, atom: PolicyRule) -> bool:
    return (
        _contains(rule.verbs, atom.verbs)
        and _contains(rule.api_groups, atom.api_groups)
        and _covers_resources(rule.resources, atom.resources)
        and (not rule.resource_names or _covers_names(rule.resource_names, atom.resource_names))
        and all(
            any(_path_covers(path, required_path) for path in rule.non_resource_urls)
            for required_path in atom.non_resource_urls
        )
    )


def _contains(allowed: tuple[str, ...], required: tuple[str, ...]) -> bool:
    return ALL in allowed or set(required) <= set(allowed)


def _covers_resources(rule: tuple[str, ...], required: tuple[str, ...]) -> bool:
    if _contains(rule, required):
        return True
    return all(
        each in rule or ("/" in each and f"*/{each.partition('/')[2]}" in rule) for each in required
    )


def _covers_names(rule: tuple[str, ...], required: tuple[str, ...]) -> bool:
    return bool(required) and set(required) <= set(rule)


def _path_covers(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))
