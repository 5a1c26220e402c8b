"""Which writes webhooks and policies match."""

from typing import Any

import pytest

from kilonova.kube.admission.in_process import Operation
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.matching import (
    MatchCriteria,
    RequestMatcher,
    RuleAttributes,
    WebhookRule,
)
from kilonova.local.apiserver.admission.version_conversion import VersionConverter
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.customresources import kinds_from_definition
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.served_kinds import ServedKinds
from tests.local.embedded_cluster import definition

CATALOG = ServedKinds(builtin_kinds())
PODS = RuleAttributes("CREATE", "", "v1", "pods", "", "default", "a")
NODES = RuleAttributes("CREATE", "", "v1", "nodes", "", "", "a")
NAMESPACE = RuleAttributes("CREATE", "", "v1", "namespaces", "", "a", "a")
STATUS = RuleAttributes("UPDATE", "", "v1", "pods", "status", "default", "a")
SCALE = RuleAttributes("UPDATE", "apps", "v1", "deployments", "scale", "default", "a")


def rule(*resources: str, **more: Any) -> Any:
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources),
        **more,
    }


@pytest.mark.parametrize(
    ("written", "requested", "covers"),
    [
        (rule("pods"), PODS, True),
        (rule("pods"), STATUS, False),
        (rule("pods/*"), STATUS, True),
        (rule("pods/*"), PODS, True),
        (rule("pods/status"), STATUS, True),
        (rule("pods/status"), PODS, False),
        (rule("*"), PODS, True),
        (rule("*"), STATUS, False),
        (rule("*/*"), STATUS, True),
        (rule("*/*"), PODS, True),
        (rule("*/scale"), SCALE, True),
        (rule("*/scale"), STATUS, False),
        (rule("nodes", "pods"), PODS, True),
        (rule("pods", operations=["UPDATE"]), PODS, False),
        (rule("pods", operations=["UPDATE", "CREATE"]), PODS, True),
        (rule("pods", apiGroups=["apps"]), PODS, False),
        (rule("pods", apiGroups=[""]), PODS, True),
        (rule("pods", apiVersions=["v2"]), PODS, False),
        (rule("*", scope="Namespaced"), PODS, True),
        (rule("*", scope="Namespaced"), NODES, False),
        (rule("*", scope="Cluster"), NODES, True),
        (rule("*", scope="Cluster"), PODS, False),
        (rule("*", scope="Cluster"), NAMESPACE, True),
        (rule("*", scope="Namespaced"), NAMESPACE, False),
        (rule("pods", resourceNames=["a", "b"]), PODS, True),
        (rule("pods", resourceNames=["b"]), PODS, False),
    ],
)
def test_rule_matches_its_resources_and_operations(
    written: Any, requested: RuleAttributes, covers: bool
) -> None:
    assert WebhookRule.from_json(written).matches(requested) is covers


def write(
    path: tuple[str, str, str],
    operation: Operation = "CREATE",
    *,
    namespace: str = "default",
    subresource: str = "",
    labels: Any = None,
    old_labels: Any = None,
) -> Attributes:
    """A write of an object; with `old_labels` it is an update."""
    kind = CATALOG.find(*path)
    assert kind is not None
    target = ResourceTarget(kind, namespace, "a", subresource)
    obj = None if operation == "DELETE" else {"metadata": {"name": "a", "labels": labels}}
    old = None if old_labels is None else {"metadata": {"name": "a", "labels": old_labels}}
    return Attributes(operation, target, User("me"), obj, old)


CONFIG_MAP = ("", "v1", "configmaps")
NAMESPACES = ("", "v1", "namespaces")
X = {"matchLabels": {"x": "y"}}


def matcher() -> RequestMatcher:
    labels = {"default": {"x": "y"}, "plain": {}, "a": {"x": "y"}}
    return RequestMatcher(VersionConverter(CATALOG), labels.get)


@pytest.mark.parametrize(
    ("criteria", "attributes", "matches"),
    [
        ({"namespaceSelector": X}, write(CONFIG_MAP), True),
        ({"namespaceSelector": X}, write(CONFIG_MAP, namespace="plain"), False),
        # Cluster-scoped objects are not excluded by a namespace selector.
        ({"namespaceSelector": X}, write(("", "v1", "nodes"), namespace=""), True),
        # A namespace that is written is matched by its new labels …
        ({"namespaceSelector": X}, write(NAMESPACES, namespace=""), False),
        ({"namespaceSelector": X}, write(NAMESPACES, namespace="", labels={"x": "y"}), True),
        # … one that is deleted, by its current labels.
        ({"namespaceSelector": X}, write(NAMESPACES, "DELETE", namespace=""), True),
        ({"objectSelector": X}, write(CONFIG_MAP, labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP), False),
        ({"objectSelector": X}, write(CONFIG_MAP, "UPDATE", old_labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP, "DELETE", old_labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP, "DELETE", old_labels={}), False),
    ],
)
def test_selectors_narrow_the_rules(criteria: Any, attributes: Attributes, matches: bool) -> None:
    written = {"rules": [rule("*")], **criteria}
    found = matcher().match(MatchCriteria.from_json(written, "rules"), attributes)
    assert (found is not None) is matches


def test_connect_options_have_no_labels() -> None:
    attributes = write(("", "v1", "pods"), "CONNECT", subresource="exec")
    attributes.obj = {"kind": "PodExecOptions", "apiVersion": "v1"}
    for selector, matches in (({}, True), (X, False)):
        written = {"rules": [rule("pods/exec")], "objectSelector": selector}
        found = matcher().match(MatchCriteria.from_json(written, "rules"), attributes)
        assert (found is not None) is matches


def test_missing_namespace_is_an_error_only_if_it_matters() -> None:
    attributes = write(CONFIG_MAP, namespace="none")
    concerned = MatchCriteria.from_json(
        {"rules": [rule("configmaps")], "namespaceSelector": X}, "rules"
    )
    with pytest.raises(ApiError, match='namespaces "none" not found'):
        matcher().match(concerned, attributes)
    other = MatchCriteria.from_json({"rules": [rule("pods")], "namespaceSelector": X}, "rules")
    assert matcher().match(other, attributes) is None


HPA = ("autoscaling", "v2", "horizontalpodautoscalers")
EVENTS = ("events.k8s.io", "v1", "events")


@pytest.mark.parametrize(
    ("policy", "written", "path", "version"),
    [
        ("Exact", rule("*", apiVersions=["v1"], apiGroups=["autoscaling"]), HPA, None),
        (
            "Equivalent",
            rule("*", apiVersions=["v1"], apiGroups=["autoscaling"]),
            HPA,
            "autoscaling/v1",
        ),
        ("Equivalent", rule("*", apiGroups=["autoscaling"]), HPA, "autoscaling/v2"),
        ("Equivalent", rule("events", apiGroups=[""]), EVENTS, "v1"),
        ("Exact", rule("events", apiGroups=[""]), EVENTS, None),
        ("Equivalent", rule("pods"), HPA, None),
    ],
)
def test_rules_match_equivalent_versions_with_match_policy(
    policy: str, written: Any, path: tuple[str, str, str], version: str | None
) -> None:
    criteria = MatchCriteria.from_json({"rules": [written], "matchPolicy": policy}, "rules")
    attributes = write(path)
    found = matcher().match(criteria, attributes)
    assert (found and found.api_version) == version
    if version is not None:
        assert matcher().may_match(criteria, attributes.target.kind)


def test_object_is_converted_to_the_matched_version() -> None:
    versions = VersionConverter(CATALOG)
    first = CATALOG.find("autoscaling", "v1", "horizontalpodautoscalers")
    assert first is not None
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    stored: Any = {
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {}, "metrics": [metric]},
    }
    converted = versions.to_version(stored, first, "")
    assert converted is not None
    assert converted["apiVersion"] == "autoscaling/v1"
    assert converted["spec"]["targetCPUUtilizationPercentage"] == 50
    assert (
        versions.to_storage(converted, first, "")["spec"]["metrics"][0]["resource"]["name"] == "cpu"
    )


def test_versions_of_a_custom_kind_are_equivalent() -> None:
    made = definition("example.com", "Thing", "things")
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    made["status"] = {
        "acceptedNames": made["spec"]["names"],
        "conditions": [{"type": "Established", "status": "True"}],
    }
    catalog = ServedKinds(builtin_kinds())
    catalog.install_crd_kinds("things.example.com", kinds_from_definition(made))
    second = catalog.find("example.com", "v2", "things")
    assert second is not None
    attributes = Attributes(
        "CREATE", ResourceTarget(second, "default", "a", ""), User("me"), {}, None
    )
    criteria = MatchCriteria.from_json({"rules": [rule("things", apiVersions=["v1"])]}, "rules")
    found = RequestMatcher(VersionConverter(catalog), {}.get).match(criteria, attributes)
    assert found is not None
    converted = VersionConverter(catalog).to_version({"apiVersion": "example.com/v2"}, found, "")
    assert converted == {"kind": "Thing", "apiVersion": "example.com/v1"}


def test_excluded_rules_win() -> None:
    written = {"resourceRules": [rule("*")], "excludeResourceRules": [rule("configmaps")]}
    criteria = MatchCriteria.from_json(written, "resourceRules")
    assert matcher().match(criteria, write(CONFIG_MAP)) is None
    assert matcher().match(criteria, write(("", "v1", "secrets"))) is not None


def test_binding_without_rules_matches_everything() -> None:
    binding = MatchCriteria.from_json({}, "resourceRules", any_resource=True)
    assert matcher().match(binding, write(CONFIG_MAP)) is not None
    webhook = MatchCriteria.from_json({}, "rules")
    assert matcher().match(webhook, write(CONFIG_MAP)) is None
