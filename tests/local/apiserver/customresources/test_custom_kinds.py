"""The kinds of a definition, and the strategy of their objects."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.customresources import CustomResourceScale, kinds_from_definition
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.objects.crd_names import accept_names

NOW = datetime(2026, 11, 15, tzinfo=UTC)
RULE = {"rule": "self.replicas <= self.max", "message": "too many"}


def definition(**version: Any) -> dict[str, Any]:
    fields = {
        "replicas": {"type": "integer", "default": 1},
        "max": {"type": "integer", "default": 5},
        "phase": {"type": "string", "enum": ["a", "b"]},
        "x": {"x-kubernetes-preserve-unknown-fields": True},
        "when": {"type": "string"},
    }
    spec = {"type": "object", "properties": fields, "x-kubernetes-validations": [RULE]}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    root = {"type": "object", "properties": {"spec": spec, "status": status}}
    names = {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        **version,
    }
    result = {
        "metadata": {"name": "things.probe.io"},
        "spec": {"group": "probe.io", "scope": "Namespaced", "names": names, "versions": [one]},
    }
    accept_names(result, [], "2026-01-01T00:00:00Z")
    return result


def kind(**version: Any) -> Kind:
    (result,) = kinds_from_definition(definition(**version))
    return result


def thing(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "probe.io/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "creationTimestamp": "2026-11-14T23:59:00Z"},
        "spec": spec,
    }


SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def test_kind_has_the_names_of_its_definition() -> None:
    result = kind()
    assert (result.api_version, result.kind, result.plural, result.singular, result.list_kind) == (
        "probe.io/v1",
        "Thing",
        "things",
        "thing",
        "ThingList",
    )
    assert (result.short_names, result.categories, result.namespaced, result.is_custom) == (
        ("th",),
        ("all",),
        True,
        True,
    )
    assert result.schema.properties["metadata"].definition.endswith("ObjectMeta")
    assert not result.subresources
    assert result.scale is None


def test_kind_has_the_subresources_of_its_version() -> None:
    result = kind(subresources={"status": {}, "scale": SCALE})
    assert {name: each.kind for name, each in result.subresources.items()} == {
        "status": "Thing",
        "scale": "Scale",
    }
    assert result.strategy.has_status_subresource
    assert not kind().strategy.has_status_subresource


def test_each_served_version_is_a_kind_and_one_is_stored() -> None:
    result = definition()
    first = result["spec"]["versions"][0]
    fields = dict(first["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
    del fields["max"]
    fields["new"] = {"type": "string", "default": "n"}
    with_more = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    result["spec"]["versions"] += [
        {**first, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": with_more}},
        {**first, "name": "v3", "storage": False, "served": False},
    ]
    one, two = kinds_from_definition(result)
    assert (one.version, two.version) == ("v1", "v2")
    assert one.from_storage is None
    assert two.from_storage is not None
    served = two.from_storage(thing(replicas=2, max=9))
    assert served["spec"] == {"replicas": 2, "new": "n"}


def test_another_version_replaces_an_unserved_storage_version() -> None:
    result = definition(served=False)
    first = result["spec"]["versions"][0]
    result["spec"]["versions"].append({**first, "name": "v2", "storage": False, "served": True})
    (only,) = kinds_from_definition(result)
    assert only.version == "v2"
    assert only.from_storage is None


def test_objects_are_defaulted_and_upgraded_to_a_new_schema() -> None:
    strategy = kind().strategy
    obj = thing()
    strategy.default(obj)
    assert obj["spec"] == {"replicas": 1, "max": 5}
    old = thing(gone=1, replicas=2)
    strategy.upgrade_stored(old)
    assert old["spec"] == {"replicas": 2, "max": 5}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"replicas": 1, "max": 5}, []),
        ({"replicas": 9, "max": 5}, ["spec: Invalid value: too many"]),
        (
            {"replicas": "a", "max": 5},
            [
                'spec.replicas: Invalid value: "string": spec.replicas in body must be of type '
                'integer: "string"',
                "<nil>: Invalid value: null: some validation rules were not checked because the "
                "object was invalid; correct the existing errors to complete validation",
            ],
        ),
    ],
)
def test_new_object_is_validated_by_schema_and_rules(
    spec: dict[str, Any], problems: list[str]
) -> None:
    assert [str(each) for each in kind().strategy.validate(thing(**spec))] == problems


def test_update_ignores_errors_of_unchanged_values() -> None:
    strategy = kind().strategy
    old = thing(replicas=9, max=5, phase="c")
    new = thing(replicas=9, max=5, phase="c")
    new["metadata"]["labels"] = {"a": "b"}
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"] = "7"
    assert strategy.validate(new) == []
    assert strategy.validate_update(new, old) == []
    new["spec"]["replicas"] = 8
    assert [each.path for each in strategy.validate_update(new, old)] == ["spec"]


def test_scale_replicas_must_be_a_count() -> None:
    strategy = kind(subresources={"status": {}, "scale": SCALE}).strategy
    obj = thing(replicas=-1, max=5)
    obj["status"] = {"replicas": 2**31}
    assert [str(each) for each in strategy.validate(obj)] == [
        ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
    ]


def test_scale_uses_the_paths_of_the_definition() -> None:
    scale = CustomResourceScale(".spec.size.count", ".status.replicas", ".status.selector")
    obj: dict[str, Any] = {"status": {"replicas": 2, "selector": "a=b"}}
    assert scale.read_scale(obj) == (0, 2, "a=b")
    scale.set_replicas(obj, 4)
    assert obj["spec"] == {"size": {"count": 4}}
    assert scale.read_scale(obj) == (4, 2, "a=b")


def test_scale_of_another_type_is_an_error() -> None:
    scale = CustomResourceScale(".spec.replicas", ".status.replicas")
    with pytest.raises(ApiError) as error:
        scale.read_scale({"spec": {"replicas": "x"}})
    assert error.value.message == (
        "Internal error occurred: .spec.replicas accessor error: x is of the type string, "
        "expected int64"
    )


def test_finalizer_without_domain_is_warned_about_once() -> None:
    strategy = kind().strategy
    obj = thing()
    obj["metadata"]["finalizers"] = ["nodomain", "a.b", "ok.io/x", "orphan"]
    tail = "to avoid accidental conflicts with other finalizer writers"
    assert strategy.warnings(obj) == [
        'metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path '
        f"(/) {tail}",
        f'metadata.finalizers: "nodomain": prefer a domain-qualified finalizer name {tail}',
    ]
    obj["metadata"]["resourceVersion"] = "1"
    assert strategy.warnings(obj) == []


COLUMNS = [
    {"name": "R", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "W", "type": "date", "jsonPath": ".spec.when", "description": "d"},
    {"name": "X", "type": "string", "jsonPath": ".spec.x", "priority": 1},
    {"name": "B", "type": "boolean", "jsonPath": ".spec.x"},
    {"name": "N", "type": "number", "jsonPath": ".spec.x", "format": "double"},
    {"name": "Bad", "type": "string", "jsonPath": ".spec[x"},
    {"name": "After", "type": "string", "jsonPath": ".spec.x"},
]


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        (
            {"replicas": 1, "when": "2020-01-01T00:00:00Z", "x": {"b": 1, "a": [1]}},
            ["a", 1, "2020-01-01T00:00:00Z", '{"a":[1],"b":1}', None, None],
        ),
        ({"x": True}, ["a", None, None, "true", True, None]),
        ({"x": 1.5}, ["a", None, None, "1.5", None, 1.5]),
        ({"x": 3, "when": 5}, ["a", None, None, "3", None, 3]),
        ({"x": "s", "replicas": 2.9}, ["a", 2, None, "s", None, None]),
    ],
)
def test_printer_columns_show_what_kubernetes_shows(spec: dict[str, Any], cells: list[Any]) -> None:
    strategy = kind(additionalPrinterColumns=COLUMNS).strategy
    assert [column.name for column in strategy.columns] == ["Name", "R", "W", "X", "B", "N"]
    assert strategy.table_cells(thing(**spec), NOW) == cells


def test_column_without_description_is_described_by_its_path() -> None:
    columns = kind(additionalPrinterColumns=COLUMNS).strategy.columns
    path = "Custom resource definition column (in JSONPath format)"
    assert [column.description for column in columns[1:4]] == [
        f"{path}: .spec.replicas",
        "d",
        f"{path}: .spec.x",
    ]
    assert [column.priority for column in columns[1:4]] == [0, 0, 1]


def test_name_and_age_are_the_default_columns() -> None:
    columns = kind().strategy.columns
    assert [(column.name, column.type) for column in columns] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert columns[1].value(thing(), NOW) == "2026-11-14T23:59:00Z"


def test_selectable_fields_are_read_as_text() -> None:
    fields = [{"jsonPath": ".spec.phase"}, {"jsonPath": ".spec.replicas"}]
    selectable = kind(selectableFields=fields).strategy.selectable_fields
    assert {name: read(thing(replicas=3)) for name, read in selectable.items()} == {
        "spec.phase": "",
        "spec.replicas": "3",
    }
