"""Rules, and how they compare with actions and with each other. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import msgspec

from kilonova.local.auth.authorizer import Action
from kilonova.local.auth.words import quoted_list

ALL = "*"


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Verbs that are allowed on resources, or on paths."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, action: Action) -> bool:
        """Whether this rule alone is enough for the action."""
        if not self.allows_but_for_name(action):
            return False
        by_name = action.path is None and self.resource_names
        return not by_name or action.name in self.resource_names

    def allows_but_for_name(self, action: Action) -> bool:
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
            or action.whole_resource in resources
            or (action.subresource != "" and f"*/{action.subresource}" in resources)
        )

    def __str__(self) -> str:
        """As refusals list it."""
        parts = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.non_resource_urls),
            ("ResourceNames", self.resource_names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted_list(each)}" for name, each in parts if each) + "}"


def missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """What `wanted` allows and `held` does not, in rules of one verb on one thing."""
    return [
        each
        for rule in wanted
        if rule not in held  # as stored roles mostly have it
        for each in _atoms(rule)
        if not any(_covers(own, each) for own in held)
    ]


def compact(rules: Iterable[Rule]) -> list[str]:
    """Rules as refusals list them: those on the same resource are put together."""
    together: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    others: list[Rule] = []
    for rule in rules:
        simple = len(rule.api_groups) == len(rule.resources) == 1 and not rule.non_resource_urls
        if simple and len(rule.resource_names) < 2:
            key = (rule.api_groups, rule.resources, rule.resource_names)
            together.setdefault(key, []).extend(rule.verbs)
        else:
            others.append(rule)
    joined = [Rule(tuple(verbs), *key) for key, verbs in together.items()]
    return sorted({str(rule) for rule in (*others, *joined)})


def _atoms(rule: Rule) -> Iterator[Rule]:
    names = [(name,) for name in rule.resource_names] or [()]
    for group, resource, verb, name in product(rule.api_groups, rule.resources, rule.verbs, names):
        yield Rule((verb,), (group,), (resource,), name)
    for path, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule((verb,), non_resource_urls=(path,))


def _covers(own: Rule, atom: Rule) -> bool:
    return (
        _has(own.verbs, atom.verbs)
        and _has(own.api_groups, atom.api_groups)
        and _covers_resources(own.resources, atom.resources)
        and (not own.resource_names or _named_by(own.resource_names, atom.resource_names))
        and all(
            any(_path_covers(path, wanted) for path in own.non_resource_urls)
            for wanted in atom.non_resource_urls
        )
    )


def _has(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in own or set(wanted) <= set(own)


def _covers_resources(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if _has(own, wanted):
        return True
    return all(
        each in own or ("/" in each and f"*/{each.partition('/')[2]}" in own) for each in wanted
    )


def _named_by(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return bool(wanted) and set(wanted) <= set(own)


def _path_covers(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))
