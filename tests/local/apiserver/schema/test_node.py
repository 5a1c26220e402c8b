"""Parsing of schemas from OpenAPI: references, recursion, and fields beside a reference."""

from typing import Any

import pytest

from kilonova.local.apiserver.schema.builtin import builtin_schema, custom_schema, definition_schema
from kilonova.local.apiserver.schema.node import UNSET, SchemaDefinitions, parse_schema

REF = "#/components/schemas/"


def definitions(sources: dict[str, Any]) -> SchemaDefinitions:
    return SchemaDefinitions(sources.__getitem__)


def test_definition_may_contain_itself() -> None:
    tree = definitions(
        {"Tree": {"type": "object", "properties": {"child": {"$ref": REF + "Tree"}}}}
    )["Tree"]
    assert tree.properties["child"] is tree


def test_fields_beside_a_self_reference_override_the_definition() -> None:
    source = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "children": {
                "allOf": [{"$ref": REF + "Tree"}],
                "x-kubernetes-map-type": "atomic",
                "default": {},
            },
            "name": {"type": "string"},
        },
    }
    tree = definitions({"Tree": source})["Tree"]
    child = tree.properties["children"]
    assert child is not tree
    assert (child.map_type, tree.map_type) == ("atomic", "granular")
    assert child.required == ("name",)
    assert child.properties is tree.properties


def test_empty_default_beside_a_reference_is_ignored() -> None:
    read_definitions = definitions({"Meta": {"type": "object"}})
    node = parse_schema(
        {"properties": {"meta": {"allOf": [{"$ref": REF + "Meta"}], "default": {}}}},
        read_definitions,
    )
    assert node.properties["meta"] is read_definitions["Meta"]
    assert node.properties["meta"].default is UNSET


def test_unknown_reference_is_an_error() -> None:
    with pytest.raises(KeyError):
        parse_schema({"$ref": REF + "Nothing"}, definitions({}))


def test_extensions_become_fields() -> None:
    ports = parse_schema(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                },
            },
        }
    )
    assert (ports.list_type, ports.list_map_keys) == ("map", ("port", "protocol"))
    assert ports.key_defaults() == {"protocol": "TCP"}


def test_pod_schema_has_patch_strategies_and_list_types() -> None:
    spec = builtin_schema("", "v1", "Pod").properties["spec"].properties
    containers = spec["containers"]
    assert (containers.list_type, containers.list_map_keys) == ("map", ("name",))
    assert (containers.patch_merge_key, containers.patch_strategies) == ("name", ("merge",))
    assert spec["volumes"].patch_strategies == ("merge", "retainKeys")
    assert spec["nodeSelector"].map_type == "atomic"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", ("string", "quantity", False)),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", ("string", "date-time", False)),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", ("string", "micro-time", False)),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", ("object", "", True)),
        ("io.k8s.apimachinery.pkg.runtime.RawExtension", ("object", "", True)),
    ],
)
def test_free_form_definitions_are_recognized(name: str, expected: tuple[str, str, bool]) -> None:
    node = definition_schema(name)
    assert (node.type, node.format, node.preserve_unknown) == expected


def test_int_or_string_is_recognized() -> None:
    node = definition_schema("io.k8s.apimachinery.pkg.util.intstr.IntOrString")
    assert node.int_or_string


def test_kinds_share_their_definitions() -> None:
    pod = builtin_schema("", "v1", "Pod")
    template = builtin_schema("apps", "v1", "Deployment").properties["spec"].properties["template"]
    assert template.properties["spec"] is pod.properties["spec"]


def test_custom_schema_has_api_version_kind_and_metadata() -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    source = {"type": "object", "properties": {"template": embedded}}
    schema = custom_schema(source)
    for node in (schema, schema.properties["template"]):
        assert node.properties["metadata"].properties["labels"].additional is not None
        assert node.properties["kind"].type == "string"
    assert schema.source is source
