"""What a definition makes: kinds, and how their objects behave."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.local.customresources import CustomScale, accept_names, kinds_of
from kilonova.local.errors import ApiError
from kilonova.local.kinds.base import Kind

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
    made = {
        "metadata": {"name": "things.probe.io"},
        "spec": {"group": "probe.io", "scope": "Namespaced", "names": names, "versions": [one]},
    }
    accept_names(made, [], "2026-01-01T00:00:00Z")
    return made


def kind(**version: Any) -> Kind:
    (made,) = kinds_of(definition(**version))
    return made


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


def test_a_kind_has_the_names_of_its_definition() -> None:
    made = kind()
    assert (made.api_version, made.kind, made.plural, made.singular, made.list_kind) == (
        "probe.io/v1",
        "Thing",
        "things",
        "thing",
        "ThingList",
    )
    assert (made.short_names, made.categories, made.namespaced, made.custom) == (
        ("th",),
        ("all",),
        True,
        True,
    )
    assert made.schema.properties["metadata"].definition.endswith("ObjectMeta")
    assert not made.subresources
    assert made.scale is None


def test_subresources_are_those_that_the_version_asks_for() -> None:
    made = kind(subresources={"status": {}, "scale": SCALE})
    assert {name: each.kind for name, each in made.subresources.items()} == {
        "status": "Thing",
        "scale": "Scale",
    }
    assert made.behavior.status_by_subresource
    assert not kind().behavior.status_by_subresource


def test_each_served_version_is_a_kind_and_one_of_them_is_stored() -> None:
    made = definition()
    first = made["spec"]["versions"][0]
    fields = dict(first["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
    del fields["max"]
    fields["new"] = {"type": "string", "default": "n"}
    with_more = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    made["spec"]["versions"] += [
        {**first, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": with_more}},
        {**first, "name": "v3", "storage": False, "served": False},
    ]
    one, two = kinds_of(made)
    assert (one.version, two.version) == ("v1", "v2")
    assert one.from_storage is None
    assert two.from_storage is not None
    shown = two.from_storage(thing(replicas=2, max=9))
    assert shown["spec"] == {"replicas": 2, "new": "n"}


def test_where_the_stored_version_is_not_served_another_stands_for_it() -> None:
    made = definition(served=False)
    first = made["spec"]["versions"][0]
    made["spec"]["versions"].append({**first, "name": "v2", "storage": False, "served": True})
    (only,) = kinds_of(made)
    assert only.version == "v2"
    assert only.from_storage is None


def test_objects_are_defaulted_and_brought_up_to_a_new_schema() -> None:
    behavior = kind().behavior
    obj = thing()
    behavior.default(obj)
    assert obj["spec"] == {"replicas": 1, "max": 5}
    old = thing(gone=1, replicas=2)
    behavior.refresh(old)
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
def test_a_new_object_is_held_to_schema_and_rules(
    spec: dict[str, Any], problems: list[str]
) -> None:
    assert [str(each) for each in kind().behavior.validate(thing(**spec))] == problems


def test_a_change_is_judged_once_and_old_faults_are_let_pass() -> None:
    behavior = kind().behavior
    old = thing(replicas=9, max=5, phase="c")
    new = thing(replicas=9, max=5, phase="c")
    new["metadata"]["labels"] = {"a": "b"}
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"] = "7"
    assert behavior.validate(new) == []
    assert behavior.validate_update(new, old) == []
    new["spec"]["replicas"] = 8
    assert [each.path for each in behavior.validate_update(new, old)] == ["spec"]


def test_replicas_of_a_scale_must_be_a_count() -> None:
    behavior = kind(subresources={"status": {}, "scale": SCALE}).behavior
    obj = thing(replicas=-1, max=5)
    obj["status"] = {"replicas": 2**31}
    assert [str(each) for each in behavior.validate(obj)] == [
        ".spec.replicas: Invalid value: -1: should be a non-negative integer",
        ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
    ]


def test_a_scale_reads_and_writes_where_the_definition_says() -> None:
    scale = CustomScale(".spec.size.count", ".status.replicas", ".status.selector")
    obj: dict[str, Any] = {"status": {"replicas": 2, "selector": "a=b"}}
    assert scale.read(obj) == (0, 2, "a=b")
    scale.write(obj, 4)
    assert obj["spec"] == {"size": {"count": 4}}
    assert scale.read(obj) == (4, 2, "a=b")


def test_a_scale_of_something_else_than_a_count_is_an_error() -> None:
    scale = CustomScale(".spec.replicas", ".status.replicas")
    with pytest.raises(ApiError) as error:
        scale.read({"spec": {"replicas": "x"}})
    assert error.value.message == (
        "Internal error occurred: .spec.replicas accessor error: x is of the type string, "
        "expected int64"
    )


def test_finalizers_without_a_domain_are_warned_about_once() -> None:
    behavior = kind().behavior
    obj = thing()
    obj["metadata"]["finalizers"] = ["nodomain", "a.b", "ok.io/x", "orphan"]
    tail = "to avoid accidental conflicts with other finalizer writers"
    assert behavior.warnings(obj) == [
        'metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path '
        f"(/) {tail}",
        f'metadata.finalizers: "nodomain": prefer a domain-qualified finalizer name {tail}',
    ]
    obj["metadata"]["resourceVersion"] = "1"
    assert behavior.warnings(obj) == []


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
def test_columns_show_what_kubernetes_shows(spec: dict[str, Any], cells: list[Any]) -> None:
    behavior = kind(additionalPrinterColumns=COLUMNS).behavior
    assert [column.name for column in behavior.columns] == ["Name", "R", "W", "X", "B", "N"]
    assert behavior.cells(thing(**spec), NOW) == cells


def test_a_column_explains_itself_by_its_path() -> None:
    columns = kind(additionalPrinterColumns=COLUMNS).behavior.columns
    path = "Custom resource definition column (in JSONPath format)"
    assert [column.description for column in columns[1:4]] == [
        f"{path}: .spec.replicas",
        "d",
        f"{path}: .spec.x",
    ]
    assert [column.priority for column in columns[1:4]] == [0, 0, 1]


def test_without_columns_name_and_age_are_shown() -> None:
    columns = kind().behavior.columns
    assert [(column.name, column.type) for column in columns] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert columns[1].value(thing(), NOW) == "2026-11-14T23:59:00Z"


def test_selectable_fields_are_read_as_text() -> None:
    fields = [{"jsonPath": ".spec.phase"}, {"jsonPath": ".spec.replicas"}]
    selectable = kind(selectableFields=fields).behavior.selectable
    assert {name: read(thing(replicas=3)) for name, read in selectable.items()} == {
        "spec.phase": "",
        "spec.replicas": "3",
    }
