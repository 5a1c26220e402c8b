"""Which writes a webhook or a policy is about: rules, and selectors of namespaces and objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.versions import Versions
from kilonova.local.errors import not_found
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import objects, part, strings
from kilonova.local.selectors import EVERYTHING, LabelSelector, label_selector

Labels = Mapping[str, str]
NamespaceLabels = Callable[[str], Labels | None]
"""The labels of a namespace, None where there is none of that name."""

_NAMESPACES = ("", "v1", "namespaces")
_NO_LABELS: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Question:
    """What rules see of a write."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Operations on resources; `*` stands for any. `names` empty: of any name."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource
    scope: str = "*"
    names: frozenset[str] = frozenset()

    @classmethod
    def read(cls, rule: JsonObject) -> "Rule":
        halves = (each.partition("/") for each in strings(rule, "resources"))
        return cls(
            frozenset(strings(rule, "operations")),
            frozenset(strings(rule, "apiGroups")),
            frozenset(strings(rule, "apiVersions")),
            tuple((resource, subresource) for resource, _, subresource in halves),
            rule.get("scope") or "*",
            frozenset(strings(rule, "resourceNames")),
        )

    def covers(self, asked: Question) -> bool:
        """Whether the write is one of these."""
        return (
            self._is_in_scope(asked)
            and _either(self.operations, asked.operation)
            and _either(self.groups, asked.group)
            and _either(self.versions, asked.version)
            and any(
                resource in ("*", asked.resource) and subresource in ("*", asked.subresource)
                for resource, subresource in self.resources
            )
            and (not self.names or asked.name in self.names)
        )

    def concerns(self, group: str, plural: str) -> bool:
        """Whether any write of this resource can be one of these."""
        return _either(self.groups, group) and any(
            resource in ("*", plural) for resource, _ in self.resources
        )

    def _is_in_scope(self, asked: Question) -> bool:
        if self.scope == "*":
            return True
        # A namespace is not in a namespace, though its requests say that it is in itself.
        is_namespace = (asked.group, asked.version, asked.resource) == _NAMESPACES
        return (self.scope == "Namespaced") == (bool(asked.namespace) and not is_namespace)


@dataclass(frozen=True, slots=True)
class Criteria:
    """All that a webhook, a policy or a binding says about the writes that it wants to see."""

    rules: tuple[Rule, ...] = ()
    excluded: tuple[Rule, ...] = ()
    equivalent: bool = True
    """Rules about one version hold for all versions of the kind."""
    namespaces: LabelSelector = EVERYTHING
    objects: LabelSelector = EVERYTHING
    any_resource: bool = False
    """Without rules it is about everything, not about nothing."""

    @classmethod
    def read(cls, value: JsonObject, rules: str, *, any_resource: bool = False) -> "Criteria":
        """Of a webhook (`rules`) or of a policy's `matchConstraints` (`resourceRules`)."""
        return cls(
            tuple(map(Rule.read, objects(value, rules))),
            tuple(map(Rule.read, objects(value, "excludeResourceRules"))),
            value.get("matchPolicy") != "Exact",
            label_selector(part(value, "namespaceSelector")),
            label_selector(part(value, "objectSelector")),
            any_resource,
        )


class Matcher:
    """Finds the version in which a write is what somebody wants to see."""

    def __init__(self, versions: Versions, namespace_labels: NamespaceLabels) -> None:
        self._versions = versions
        self._namespace_labels = namespace_labels

    def may_concern(self, criteria: Criteria, kind: Kind) -> bool:
        """Whether any write of this kind can match."""
        if criteria.any_resource and not criteria.rules:
            return True
        kinds = self._versions.equivalent(kind) if criteria.equivalent else [kind]
        return any(
            rule.concerns(each.group, each.plural) for rule in criteria.rules for each in kinds
        )

    def matched(self, criteria: Criteria, attributes: Attributes) -> Kind | None:
        """The kind, in the version to show the write in; None where it does not match.

        Raises ApiError 404 where the namespace decides and is not there.
        """
        kind = attributes.target.kind
        if criteria.excluded and self._covering(criteria.excluded, criteria, attributes):
            return None
        found: Kind | None = kind
        if criteria.rules or not criteria.any_resource:
            found = self._covering(criteria.rules, criteria, attributes)
        if found is None:
            return None
        if criteria.objects and not _selected(criteria.objects, attributes):
            return None
        if criteria.namespaces and not self._in_namespace(criteria.namespaces, attributes):
            return None
        return found

    def _covering(
        self, rules: Iterable[Rule], criteria: Criteria, attributes: Attributes
    ) -> Kind | None:
        target = attributes.target
        kind = target.kind
        asked = Question(
            attributes.operation,
            kind.group,
            kind.version,
            kind.plural,
            target.subresource,
            attributes.namespace,
            attributes.name,
        )
        if any(rule.covers(asked) for rule in rules):
            return kind
        if not criteria.equivalent:
            return None
        others = [
            each
            for each in self._versions.equivalent(kind)
            if each is not kind
            and (not target.subresource or target.subresource in each.subresources)
        ]
        for rule in rules:
            for each in others:
                if rule.covers(
                    replace(asked, group=each.group, version=each.version, resource=each.plural)
                ):
                    return each
        return None

    def _in_namespace(self, selector: LabelSelector, attributes: Attributes) -> bool:
        target = attributes.target
        is_namespace = target.kind.plural == "namespaces"
        if not attributes.namespace and not is_namespace:
            return True
        changes = attributes.operation in ("CREATE", "UPDATE") and not target.subresource
        if is_namespace and changes:
            return selector.matches(_labels(attributes.obj))
        labels = self._namespace_labels(attributes.namespace)
        if labels is None:
            raise not_found("", "namespaces", attributes.namespace)
        return selector.matches(labels)


def _selected(selector: LabelSelector, attributes: Attributes) -> bool:
    return any(
        obj is not None and "metadata" in obj and selector.matches(_labels(obj))
        for obj in (attributes.obj, attributes.old)
    )


def _labels(obj: JsonObject | None) -> Labels:
    return part(obj or {}, "metadata").get("labels") or _NO_LABELS


def _either(allowed: frozenset[str], asked: str) -> bool:
    return asked in allowed or "*" in allowed
