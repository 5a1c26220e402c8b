"""Objects of built-in kinds are brought into form, or refused in Kubernetes' words."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.errors import ApiError, bad_request
from kilonova.local.schema.builtin import builtin_schema
from kilonova.local.schema.check import checker
from tests.local.schema.cases import load, strict_error


def admit(obj: dict[str, Any]) -> list[str]:
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin_schema(group, version, obj["kind"])
    return checker(schema).admit(obj, obj["kind"], version)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


@pytest.mark.parametrize("case", load("builtin_cases.yaml"))
def test_an_object_that_cannot_be_read_is_refused_in_the_words_of_kubernetes(
    case: dict[str, Any],
) -> None:
    obj = case["object"]
    version = obj["apiVersion"].rpartition("/")[2]
    try:
        refused = bad_request(strict_error(obj["kind"], version, admit(obj)))
    except ApiError as error:
        refused = error
    assert (refused.code, refused.message) == (400, case["refused"])


def test_a_null_field_is_absent() -> None:
    obj = pod(hostNetwork=None, affinity=None)
    obj["metadata"]["creationTimestamp"] = None
    assert admit(obj) == []
    assert obj == pod()


def test_a_null_in_a_list_or_map_is_the_empty_value_of_its_type() -> None:
    obj = pod(
        containers=[{"args": [None, "x"], "resources": {"limits": {"cpu": None}}}, None],
        nodeSelector={"a": None},
    )
    admit(obj)
    assert obj["spec"] == {
        "containers": [{"args": ["", "x"], "resources": {"limits": {"cpu": "0"}}}, {}],
        "nodeSelector": {"a": ""},
    }


def test_unknown_fields_are_dropped_and_named_in_order() -> None:
    obj = pod(foo=1, tolerations=[{"key": "a", "bar": {}}])
    assert admit(obj) == ["spec.foo", "spec.tolerations[0].bar"]
    assert obj == pod(tolerations=[{"key": "a"}])


def test_scalars_take_the_form_in_which_they_are_stored() -> None:
    limits = {"cpu": 1.5, "memory": 1000000, "a.b/c": "1000m"}
    obj = pod(containers=[{"name": "c", "resources": {"limits": limits}}])
    obj["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00.5+02:00"
    admit(obj)
    stored = {"cpu": "1500m", "memory": "1M", "a.b/c": "1"}
    assert obj["spec"]["containers"][0]["resources"]["limits"] == stored
    assert obj["metadata"]["deletionTimestamp"] == "2019-12-31T22:00:00Z"


def test_values_of_no_known_form_are_kept_as_they_are() -> None:
    fields = {"f:spec": {".": {}, "k:{}": None}}
    obj = pod()
    obj["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": deepcopy(fields)}]
    assert admit(obj) == []
    assert obj["metadata"]["managedFields"][0]["fieldsV1"] == fields


def test_a_schema_inside_a_schema_is_pruned_silently_where_kubernetes_is_silent() -> None:
    inner = {"type": "string", "unheard": 1, "items": {"type": "string", "of": 2}}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": inner}}]},
    }
    assert admit(obj) == ["spec.versions[0].schema.openAPIV3Schema.unheard"]
    assert inner == {"type": "string", "items": {"type": "string"}}


def test_hostile_nesting_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {"not": schema}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    with pytest.raises(ApiError, match="exceeded max depth") as caught:
        admit(obj)
    assert caught.value.code == 400


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
def test_an_object_in_form_stays_as_it_is_also_beside_an_unknown_field(
    items: list[Any], labels: dict[str, str]
) -> None:
    obj = pod(containers=items)
    obj["metadata"]["labels"] = labels
    careful = deepcopy(obj)
    careful["spec"]["unknown"] = 1

    assert admit(obj) == []
    assert admit(careful) == ["spec.unknown"]
    assert careful == obj

    again = deepcopy(obj)
    admit(again)
    assert msgspec.json.encode(again) == msgspec.json.encode(obj)
