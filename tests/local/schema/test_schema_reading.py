"""Reading schemas from OpenAPI: references, recursion, and what is set beside a reference."""

from typing import Any

import pytest

from kilonova.local.schema.builtin import builtin_schema, custom_schema, definition_schema
from kilonova.local.schema.node import UNSET, Definitions, read

REF = "#/components/schemas/"


def definitions(sources: dict[str, Any]) -> Definitions:
    return Definitions(sources.__getitem__)


def test_a_definition_may_contain_itself() -> None:
    tree = definitions(
        {"Tree": {"type": "object", "properties": {"child": {"$ref": REF + "Tree"}}}}
    )["Tree"]
    assert tree.properties["child"] is tree


def test_settings_beside_a_reference_to_itself_are_taken_from_the_finished_definition() -> None:
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


def test_an_empty_default_beside_a_reference_says_nothing() -> None:
    read_definitions = definitions({"Meta": {"type": "object"}})
    node = read(
        {"properties": {"meta": {"allOf": [{"$ref": REF + "Meta"}], "default": {}}}},
        read_definitions,
    )
    assert node.properties["meta"] is read_definitions["Meta"]
    assert node.properties["meta"].default is UNSET


def test_an_unknown_reference_is_an_error() -> None:
    with pytest.raises(KeyError):
        read({"$ref": REF + "Nothing"}, definitions({}))


def test_extensions_become_fields() -> None:
    ports = read(
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


def test_a_pod_has_the_settings_that_patches_need() -> None:
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
def test_opaque_definitions_are_known(name: str, expected: tuple[str, str, bool]) -> None:
    node = definition_schema(name)
    assert (node.type, node.format, node.preserve_unknown) == expected


def test_an_int_or_string_is_known() -> None:
    node = definition_schema("io.k8s.apimachinery.pkg.util.intstr.IntOrString")
    assert node.int_or_string


def test_kinds_share_their_definitions() -> None:
    pod = builtin_schema("", "v1", "Pod")
    template = builtin_schema("apps", "v1", "Deployment").properties["spec"].properties["template"]
    assert template.properties["spec"] is pod.properties["spec"]


def test_a_custom_kind_has_what_every_object_has() -> None:
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
