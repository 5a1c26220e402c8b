"""Conforming objects to built-in schemas, with Kubernetes' error messages."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.apiserver.schema.checker import schema_checker
from tests.local.apiserver.schema.cases import load, strict_error


def conform(obj: dict[str, Any]) -> list[str]:
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin_schema(group, version, obj["kind"])
    return schema_checker(schema).conform(obj, obj["kind"], version)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


@pytest.mark.parametrize("case", load("builtin_cases.yaml"))
def test_undecodable_object_is_rejected_with_kubernetes_message(
    case: dict[str, Any],
) -> None:
    obj = case["object"]
    version = obj["apiVersion"].rpartition("/")[2]
    try:
        rejection = bad_request(strict_error(obj["kind"], version, conform(obj)))
    except ApiError as error:
        rejection = error
    assert (rejection.code, rejection.message) == (400, case["rejected"])


def test_null_field_is_absent() -> None:
    obj = pod(hostNetwork=None, affinity=None)
    obj["metadata"]["creationTimestamp"] = None
    assert conform(obj) == []
    assert obj == pod()


def test_null_in_a_list_or_map_is_the_zero_value() -> None:
    obj = pod(
        containers=[{"args": [None, "x"], "resources": {"limits": {"cpu": None}}}, None],
        nodeSelector={"a": None},
    )
    conform(obj)
    assert obj["spec"] == {
        "containers": [{"args": ["", "x"], "resources": {"limits": {"cpu": "0"}}}, {}],
        "nodeSelector": {"a": ""},
    }


def test_unknown_fields_are_dropped_and_reported_in_order() -> None:
    obj = pod(foo=1, tolerations=[{"key": "a", "bar": {}}])
    assert conform(obj) == ["spec.foo", "spec.tolerations[0].bar"]
    assert obj == pod(tolerations=[{"key": "a"}])


def test_scalars_are_normalized() -> None:
    limits = {"cpu": 1.5, "memory": 1000000, "a.b/c": "1000m"}
    obj = pod(containers=[{"name": "c", "resources": {"limits": limits}}])
    obj["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00.5+02:00"
    conform(obj)
    stored = {"cpu": "1500m", "memory": "1M", "a.b/c": "1"}
    assert obj["spec"]["containers"][0]["resources"]["limits"] == stored
    assert obj["metadata"]["deletionTimestamp"] == "2019-12-31T22:00:00Z"


def test_free_form_values_are_kept() -> None:
    fields = {"f:spec": {".": {}, "k:{}": None}}
    obj = pod()
    obj["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": deepcopy(fields)}]
    assert conform(obj) == []
    assert obj["metadata"]["managedFields"][0]["fieldsV1"] == fields


def test_nested_schema_is_pruned_silently_as_in_kubernetes() -> None:
    inner = {"type": "string", "unheard": 1, "items": {"type": "string", "of": 2}}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": inner}}]},
    }
    assert conform(obj) == ["spec.versions[0].schema.openAPIV3Schema.unheard"]
    assert inner == {"type": "string", "items": {"type": "string"}}


def test_deep_nesting_is_rejected() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {"not": schema}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    with pytest.raises(ApiError, match="exceeded max depth") as raised:
        conform(obj)
    assert raised.value.code == 400


texts = st.text(max_size=5)
quantities = st.sampled_from(["1", "500m", "2Gi", 3, 0.5])
containers = st.fixed_dictionaries(
    {"name": texts},
    optional={
        "image": texts,
        "args": st.lists(texts, max_size=3),
        "stdin": st.booleans() | st.none(),
        "ports": st.lists(
            st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), max_size=2
        ),
        "resources": st.fixed_dictionaries(
            {"limits": st.dictionaries(texts, quantities, max_size=3)}
        ),
    },
)


@given(st.lists(containers, max_size=3), st.dictionaries(texts, texts, max_size=3))
def test_conforming_object_is_unchanged_beside_an_unknown_field(
    items: list[Any], labels: dict[str, str]
) -> None:
    obj = pod(containers=items)
    obj["metadata"]["labels"] = labels
    with_unknown = deepcopy(obj)
    with_unknown["spec"]["unknown"] = 1

    assert conform(obj) == []
    assert conform(with_unknown) == ["spec.unknown"]
    assert with_unknown == obj

    again = deepcopy(obj)
    conform(again)
    assert msgspec.json.encode(again) == msgspec.json.encode(obj)
