"""Matches requests to webhooks and policies: rules, and selectors of namespaces and objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import not_found
from kilonova.local.apimachinery.selectors import EVERYTHING, LabelSelector, selector_from_object
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.version_conversion import VersionConverter
from kilonova.local.apiserver.kinds.kind import Kind

Labels = Mapping[str, str]
NamespaceLabels = Callable[[str], Labels | None]
"""The labels of a namespace, None if it does not exist."""

_NAMESPACES = ("", "v1", "namespaces")
_NO_LABELS: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class RuleAttributes:
    """The attributes of a write that rules match."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Operations on resources; `*` matches any. Empty `names` match any name."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource
    scope: str = "*"
    names: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, rule: JsonObject) -> "WebhookRule":
        return cls(
            frozenset(nested_strings(rule, "operations")),
            frozenset(nested_strings(rule, "apiGroups")),
            frozenset(nested_strings(rule, "apiVersions")),
            tuple(map(split_resource, nested_strings(rule, "resources"))),
            rule.get("scope") or "*",
            frozenset(nested_strings(rule, "resourceNames")),
        )

    def matches(self, attributes: RuleAttributes) -> bool:
        """Whether the rule matches the write."""
        return (
            self._is_in_scope(attributes)
            and _contains_or_any(self.operations, attributes.operation)
            and _contains_or_any(self.groups, attributes.group)
            and _contains_or_any(self.versions, attributes.version)
            and any(
                resource in ("*", attributes.resource)
                and subresource in ("*", attributes.subresource)
                for resource, subresource in self.resources
            )
            and (not self.names or attributes.name in self.names)
        )

    def may_match_resource(self, group: str, plural: str) -> bool:
        """Whether the rule can match any write of this resource."""
        return _contains_or_any(self.groups, group) and any(
            resource in ("*", plural) for resource, _ in self.resources
        )

    def _is_in_scope(self, attributes: RuleAttributes) -> bool:
        if self.scope == "*":
            return True
        # A namespace is cluster-scoped, although its requests have it as their namespace.
        is_namespace = (attributes.group, attributes.version, attributes.resource) == _NAMESPACES
        return (self.scope == "Namespaced") == (bool(attributes.namespace) and not is_namespace)


@dataclass(frozen=True, slots=True)
class MatchCriteria:
    """Everything by which a webhook, a policy or a binding selects writes."""

    rules: tuple[WebhookRule, ...] = ()
    excluded_rules: tuple[WebhookRule, ...] = ()
    match_equivalent: bool = True
    """Rules for one version match all versions of the kind."""
    namespace_selector: LabelSelector = EVERYTHING
    object_selector: LabelSelector = EVERYTHING
    matches_any_resource: bool = False
    """Without rules it matches everything, not nothing."""

    @classmethod
    def from_json(
        cls, value: JsonObject, rules: str, *, any_resource: bool = False
    ) -> "MatchCriteria":
        """Of a webhook (`rules`) or of a policy's `matchConstraints` (`resourceRules`)."""
        return cls(
            tuple(map(WebhookRule.from_json, nested_objects(value, rules))),
            tuple(map(WebhookRule.from_json, nested_objects(value, "excludeResourceRules"))),
            value.get("matchPolicy") != "Exact",
            selector_from_object(nested_object(value, "namespaceSelector")),
            selector_from_object(nested_object(value, "objectSelector")),
            any_resource,
        )


class RequestMatcher:
    """Finds the version in which a write matches."""

    def __init__(self, versions: VersionConverter, namespace_labels: NamespaceLabels) -> None:
        self._versions = versions
        self._namespace_labels = namespace_labels

    def may_match(self, criteria: MatchCriteria, kind: Kind) -> bool:
        """Whether any write of this kind can match."""
        if criteria.matches_any_resource and not criteria.rules:
            return True
        kinds = self._versions.equivalent_kinds(kind) if criteria.match_equivalent else [kind]
        return any(
            rule.may_match_resource(each.group, each.plural)
            for rule in criteria.rules
            for each in kinds
        )

    def match(self, criteria: MatchCriteria, attributes: Attributes) -> Kind | None:
        """The kind, in the version for the webhook or policy; None if the write does not match.

        Raises ApiError 404 if the namespace is needed and does not exist.
        """
        kind = attributes.target.kind
        if criteria.excluded_rules and self._match_rules(
            criteria.excluded_rules, criteria, attributes
        ):
            return None
        found: Kind | None = kind
        if criteria.rules or not criteria.matches_any_resource:
            found = self._match_rules(criteria.rules, criteria, attributes)
        if found is None:
            return None
        if criteria.object_selector and not _matches_object(criteria.object_selector, attributes):
            return None
        if criteria.namespace_selector and not self._matches_namespace(
            criteria.namespace_selector, attributes
        ):
            return None
        return found

    def _match_rules(
        self, rules: Iterable[WebhookRule], criteria: MatchCriteria, attributes: Attributes
    ) -> Kind | None:
        target = attributes.target
        kind = target.kind
        rule_attributes = RuleAttributes(
            attributes.operation,
            kind.group,
            kind.version,
            kind.plural,
            target.subresource,
            attributes.namespace,
            attributes.name,
        )
        if any(rule.matches(rule_attributes) for rule in rules):
            return kind
        if not criteria.match_equivalent:
            return None
        others = [
            each
            for each in self._versions.equivalent_kinds(kind)
            if each is not kind
            and (not target.subresource or target.subresource in each.subresources)
        ]
        for rule in rules:
            for each in others:
                if rule.matches(
                    replace(
                        rule_attributes,
                        group=each.group,
                        version=each.version,
                        resource=each.plural,
                    )
                ):
                    return each
        return None

    def _matches_namespace(self, selector: LabelSelector, attributes: Attributes) -> bool:
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


def split_resource(text: str) -> tuple[str, str]:
    """Resource and subresource of a rule: `pods/binding`, `*/scale`; `pods` has none."""
    resource, _, subresource = text.partition("/")
    return resource, subresource


def _matches_object(selector: LabelSelector, attributes: Attributes) -> bool:
    return any(
        obj is not None and "metadata" in obj and selector.matches(_labels(obj))
        for obj in (attributes.obj, attributes.old)
    )


def _labels(obj: JsonObject | None) -> Labels:
    return nested_object(obj or {}, "metadata").get("labels") or _NO_LABELS


def _contains_or_any(allowed: frozenset[str], value: str) -> bool:
    return value in allowed or "*" in allowed
