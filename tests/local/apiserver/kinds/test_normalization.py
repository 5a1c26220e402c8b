"""Normalization: what Go's encoding omits, and what it always writes."""

from typing import Any

import pytest

from kilonova.local.apiserver.kinds.normalization import NormalizerCompiler
from kilonova.local.apiserver.schema.builtin import definition_schema

CORE = "io.k8s.api.core.v1."


def normalize(definition: str, value: Any) -> Any:
    normalizer = NormalizerCompiler().compile(definition_schema(definition))
    assert normalizer is not None
    return normalizer(value)


@pytest.mark.parametrize(
    ("definition", "given", "expected"),
    [
        ("Container", {"name": "a"}, {"name": "a", "resources": {}}),
        ("Container", {"name": "a", "args": [], "tty": False}, {"name": "a", "resources": {}}),
        ("Container", {"resources": {}}, {"name": "", "resources": {}}),
        ("Toleration", {"tolerationSeconds": 0, "key": ""}, {"tolerationSeconds": 0}),
        ("Probe", {"exec": {}, "periodSeconds": 0}, {"exec": {}}),
        ("EnvVar", {"name": "a", "value": ""}, {"name": "a"}),
        ("ResourceFieldSelector", {"resource": "a"}, {"resource": "a", "divisor": "0"}),
        (
            "ResourceRequirements",
            {"limits": {"cpu": "1000m", "memory": 1024}, "claims": None},
            {"limits": {"cpu": "1", "memory": "1024"}},
        ),
        ("PodCondition", {"type": "a", "lastProbeTime": None}, None),
        ("ObjectReference", {"name": None}, {}),
    ],
)
def test_values_are_normalized_as_by_go(definition: str, given: Any, expected: Any) -> None:
    if expected is None:
        expected = {"type": "a", "status": "", "lastProbeTime": None, "lastTransitionTime": None}
    assert normalize(CORE + definition, given) == expected


def test_times_are_written_in_utc() -> None:
    lease = {
        "acquireTime": "2026-01-02T03:04:05.000001+01:00",
        "renewTime": "2026-01-02T03:04:05.000001Z",
    }
    assert normalize("io.k8s.api.coordination.v1.LeaseSpec", lease) == {
        "acquireTime": "2026-01-02T02:04:05.000001Z",
        "renewTime": "2026-01-02T03:04:05.000001Z",
    }


def test_empty_list_without_omitempty_is_null() -> None:
    role = normalize("io.k8s.api.rbac.v1.Role", {"metadata": {"name": "a"}, "rules": []})
    assert role == {"metadata": {"name": "a"}, "rules": None}


def test_pointer_keeps_an_empty_object() -> None:
    spec = normalize("io.k8s.api.apps.v1.DeploymentSpec", {"selector": {}})
    assert spec["selector"] == {}
    assert normalize("io.k8s.api.apps.v1.DeploymentSpec", {})["selector"] is None


def test_recursive_definition_is_normalized() -> None:
    schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    given = {"type": "object", "properties": {"a": {"type": "", "required": []}}}
    assert normalize(schema, given) == {"type": "object", "properties": {"a": {}}}


def test_free_form_values_are_unchanged() -> None:
    revision = {"data": {"a": [], "b": "", "c": None}, "revision": 0}
    found = normalize("io.k8s.api.apps.v1.ControllerRevision", revision)
    assert found["data"] == {"a": [], "b": "", "c": None}
