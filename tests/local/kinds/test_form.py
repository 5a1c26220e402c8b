"""The form that Go gives an object: what it leaves out, what it always writes."""

from typing import Any

import pytest

from kilonova.local.kinds.form import Forms
from kilonova.local.schema.builtin import definition_schema

CORE = "io.k8s.api.core.v1."


def formed(definition: str, value: Any) -> Any:
    former = Forms().former(definition_schema(definition))
    assert former is not None
    return former(value)


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
def test_values_take_the_form_of_go(definition: str, given: Any, expected: Any) -> None:
    if expected is None:
        expected = {"type": "a", "status": "", "lastProbeTime": None, "lastTransitionTime": None}
    assert formed(CORE + definition, given) == expected


def test_times_are_written_in_utc() -> None:
    lease = {
        "acquireTime": "2026-01-02T03:04:05.000001+01:00",
        "renewTime": "2026-01-02T03:04:05.000001Z",
    }
    assert formed("io.k8s.api.coordination.v1.LeaseSpec", lease) == {
        "acquireTime": "2026-01-02T02:04:05.000001Z",
        "renewTime": "2026-01-02T03:04:05.000001Z",
    }


def test_a_list_that_is_always_written_is_null_when_empty() -> None:
    role = formed("io.k8s.api.rbac.v1.Role", {"metadata": {"name": "a"}, "rules": []})
    assert role == {"metadata": {"name": "a"}, "rules": None}


def test_a_pointer_that_is_always_written_keeps_an_empty_object() -> None:
    spec = formed("io.k8s.api.apps.v1.DeploymentSpec", {"selector": {}})
    assert spec["selector"] == {}
    assert formed("io.k8s.api.apps.v1.DeploymentSpec", {})["selector"] is None


def test_a_definition_that_contains_itself_is_walked() -> None:
    schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    given = {"type": "object", "properties": {"a": {"type": "", "required": []}}}
    assert formed(schema, given) == {"type": "object", "properties": {"a": {}}}


def test_free_form_values_stay_as_they_are() -> None:
    revision = {"data": {"a": [], "b": "", "c": None}, "revision": 0}
    found = formed("io.k8s.api.apps.v1.ControllerRevision", revision)
    assert found["data"] == {"a": [], "b": "", "c": None}
