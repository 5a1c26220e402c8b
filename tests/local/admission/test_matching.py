"""Which writes webhooks and policies are about."""

from typing import Any

import pytest

from kilonova.local.admission.chain import Attributes, Operation
from kilonova.local.admission.matching import Criteria, Matcher, Question, Rule
from kilonova.local.admission.versions import Versions
from kilonova.local.auth import User
from kilonova.local.catalog import Catalog
from kilonova.local.customresources import kinds_of
from kilonova.local.errors import ApiError
from kilonova.local.kinds.builtin import builtin_kinds
from kilonova.local.routes import Target
from tests.local.embedded_cluster import definition

CATALOG = Catalog(builtin_kinds())
PODS = Question("CREATE", "", "v1", "pods", "", "default", "a")
NODES = Question("CREATE", "", "v1", "nodes", "", "", "a")
NAMESPACE = Question("CREATE", "", "v1", "namespaces", "", "a", "a")
STATUS = Question("UPDATE", "", "v1", "pods", "status", "default", "a")
SCALE = Question("UPDATE", "apps", "v1", "deployments", "scale", "default", "a")


def rule(*resources: str, **more: Any) -> Any:
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources),
        **more,
    }


@pytest.mark.parametrize(
    ("written", "asked", "covers"),
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
def test_a_rule_covers_what_it_names(written: Any, asked: Question, covers: bool) -> None:
    assert Rule.read(written).covers(asked) is covers


def write(
    path: tuple[str, str, str],
    operation: Operation = "CREATE",
    *,
    namespace: str = "default",
    subresource: str = "",
    labels: Any = None,
    old_labels: Any = None,
) -> Attributes:
    """A write of an object; `old_labels` where there is an old one."""
    kind = CATALOG.find(*path)
    assert kind is not None
    target = Target(kind, namespace, "a", subresource)
    obj = None if operation == "DELETE" else {"metadata": {"name": "a", "labels": labels}}
    old = None if old_labels is None else {"metadata": {"name": "a", "labels": old_labels}}
    return Attributes(operation, target, User("me"), obj, old)


CONFIG_MAP = ("", "v1", "configmaps")
NAMESPACES = ("", "v1", "namespaces")
X = {"matchLabels": {"x": "y"}}


def matcher() -> Matcher:
    labels = {"default": {"x": "y"}, "plain": {}, "a": {"x": "y"}}
    return Matcher(Versions(CATALOG), labels.get)


@pytest.mark.parametrize(
    ("criteria", "attributes", "matches"),
    [
        ({"namespaceSelector": X}, write(CONFIG_MAP), True),
        ({"namespaceSelector": X}, write(CONFIG_MAP, namespace="plain"), False),
        # What is in no namespace is not spared by its labels.
        ({"namespaceSelector": X}, write(("", "v1", "nodes"), namespace=""), True),
        # A namespace that is written is judged by the labels that it will have …
        ({"namespaceSelector": X}, write(NAMESPACES, namespace=""), False),
        ({"namespaceSelector": X}, write(NAMESPACES, namespace="", labels={"x": "y"}), True),
        # … one that goes, by those it has.
        ({"namespaceSelector": X}, write(NAMESPACES, "DELETE", namespace=""), True),
        ({"objectSelector": X}, write(CONFIG_MAP, labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP), False),
        ({"objectSelector": X}, write(CONFIG_MAP, "UPDATE", old_labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP, "DELETE", old_labels={"x": "y"}), True),
        ({"objectSelector": X}, write(CONFIG_MAP, "DELETE", old_labels={}), False),
    ],
)
def test_selectors_narrow_what_rules_allow(
    criteria: Any, attributes: Attributes, matches: bool
) -> None:
    written = {"rules": [rule("*")], **criteria}
    found = matcher().matched(Criteria.read(written, "rules"), attributes)
    assert (found is not None) is matches


def test_options_of_a_connection_have_no_labels() -> None:
    attributes = write(("", "v1", "pods"), "CONNECT", subresource="exec")
    attributes.obj = {"kind": "PodExecOptions", "apiVersion": "v1"}
    for selector, matches in (({}, True), (X, False)):
        written = {"rules": [rule("pods/exec")], "objectSelector": selector}
        found = matcher().matched(Criteria.read(written, "rules"), attributes)
        assert (found is not None) is matches


def test_a_namespace_that_is_not_there_is_told_only_where_it_matters() -> None:
    attributes = write(CONFIG_MAP, namespace="none")
    concerned = Criteria.read({"rules": [rule("configmaps")], "namespaceSelector": X}, "rules")
    with pytest.raises(ApiError, match='namespaces "none" not found'):
        matcher().matched(concerned, attributes)
    other = Criteria.read({"rules": [rule("pods")], "namespaceSelector": X}, "rules")
    assert matcher().matched(other, attributes) is None


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
def test_rules_hold_for_equivalent_versions_if_so_wanted(
    policy: str, written: Any, path: tuple[str, str, str], version: str | None
) -> None:
    criteria = Criteria.read({"rules": [written], "matchPolicy": policy}, "rules")
    attributes = write(path)
    found = matcher().matched(criteria, attributes)
    assert (found and found.api_version) == version
    if version is not None:
        assert matcher().may_concern(criteria, attributes.target.kind)


def test_an_object_is_shown_in_the_version_that_matched() -> None:
    versions = Versions(CATALOG)
    first = CATALOG.find("autoscaling", "v1", "horizontalpodautoscalers")
    assert first is not None
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    stored: Any = {
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {}, "metrics": [metric]},
    }
    shown = versions.shown(stored, first, "")
    assert shown is not None
    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 50
    assert versions.stored(shown, first, "")["spec"]["metrics"][0]["resource"]["name"] == "cpu"


def test_versions_of_a_custom_kind_are_equivalent() -> None:
    made = definition("example.com", "Thing", "things")
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    made["status"] = {
        "acceptedNames": made["spec"]["names"],
        "conditions": [{"type": "Established", "status": "True"}],
    }
    catalog = Catalog(builtin_kinds())
    catalog.install("things.example.com", kinds_of(made))
    second = catalog.find("example.com", "v2", "things")
    assert second is not None
    attributes = Attributes("CREATE", Target(second, "default", "a", ""), User("me"), {}, None)
    criteria = Criteria.read({"rules": [rule("things", apiVersions=["v1"])]}, "rules")
    found = Matcher(Versions(catalog), {}.get).matched(criteria, attributes)
    assert found is not None
    shown = Versions(catalog).shown({"apiVersion": "example.com/v2"}, found, "")
    assert shown == {"kind": "Thing", "apiVersion": "example.com/v1"}


def test_excluded_rules_win() -> None:
    written = {"resourceRules": [rule("*")], "excludeResourceRules": [rule("configmaps")]}
    criteria = Criteria.read(written, "resourceRules")
    assert matcher().matched(criteria, write(CONFIG_MAP)) is None
    assert matcher().matched(criteria, write(("", "v1", "secrets"))) is not None


def test_a_binding_without_rules_is_about_everything() -> None:
    binding = Criteria.read({}, "resourceRules", any_resource=True)
    assert matcher().matched(binding, write(CONFIG_MAP)) is not None
    webhook = Criteria.read({}, "rules")
    assert matcher().matched(webhook, write(CONFIG_MAP)) is None
