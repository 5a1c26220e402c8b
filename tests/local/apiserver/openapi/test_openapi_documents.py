"""OpenAPI v3 as kubectl uses it, for built-in and custom kinds."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy
from kilonova.local.apiserver.openapi import OpenApiDocuments, openapi_document, openapi_index
from kilonova.local.apiserver.schema.builtin import custom_schema

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@pytest.fixture(scope="module")
def builtin() -> list[Kind]:
    return builtin_kinds()


def queue(**fields: Any) -> Kind:
    source = {
        "type": "object",
        "description": "A queue.",
        "properties": {"spec": {"type": "object", "properties": fields}},
    }
    return Kind(
        group="scheduling.example.dev",
        version="v1alpha1",
        kind="Queue",
        plural="queues",
        singular="queue",
        namespaced=True,
        verbs=VERBS,
        load_schema=lambda: custom_schema(source),
        strategy=KindStrategy(),
        list_kind="QueueList",
        is_custom=True,
    )


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_index_has_every_group_version(builtin: list[Kind]) -> None:
    paths = openapi_index(builtin)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/autoscaling/v2"} <= set(paths)
    api = OpenApiDocuments()
    api.update(builtin)
    for path, entry in paths.items():
        address, _, digest = entry["serverRelativeURL"].partition("?hash=")
        assert address == f"/openapi/v3/{path}"
        found = api.find(address)
        assert found is not None
        assert found[1] == f'"{digest}"'


def test_document_defines_all_references(builtin: list[Kind]) -> None:
    for group, version in {(kind.group, kind.version) for kind in builtin}:
        result = openapi_document(group, version, builtin)
        assert references(result) <= set(result["components"]["schemas"])


def test_definition_has_its_kind_and_descriptions(builtin: list[Kind]) -> None:
    schemas = openapi_document("apps", "v1", builtin)["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "kind": "Deployment", "version": "v1"}
    ]
    assert deployment["description"].startswith("Deployment enables declarative updates")
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["description"].startswith("List of containers")


def test_writes_have_the_field_validation_parameter(builtin: list[Kind]) -> None:
    paths = openapi_document("apps", "v1", builtin)["paths"]
    item = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    collection = paths["/apis/apps/v1/namespaces/{namespace}/deployments"]
    for operation in (item["patch"], item["put"], collection["post"]):
        names = {each["name"] for each in operation["parameters"]}
        assert {"dryRun", "fieldManager", "fieldValidation"} <= names
        assert operation["x-kubernetes-group-version-kind"] == {
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
        }
    assert "application/strategic-merge-patch+json" in item["patch"]["requestBody"]["content"]


def test_scale_has_its_own_kind(builtin: list[Kind]) -> None:
    result = openapi_document("apps", "v1", builtin)
    scale = result["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
    assert scale["patch"]["x-kubernetes-group-version-kind"]["kind"] == "Scale"
    assert "io.k8s.api.autoscaling.v1.Scale" in result["components"]["schemas"]


def test_custom_kind_has_api_version_kind_and_metadata() -> None:
    kind = queue(template={"type": "object", "x-kubernetes-embedded-resource": True})
    result = openapi_document(kind.group, kind.version, [kind])
    schema = result["components"]["schemas"]["dev.example.scheduling.v1alpha1.Queue"]
    assert schema["description"] == "A queue."
    template = schema["properties"]["spec"]["properties"]["template"]
    for properties in (schema["properties"], template["properties"]):
        assert properties["metadata"]["allOf"][0]["$ref"].endswith("v1.ObjectMeta")
        assert properties["kind"]["type"] == "string"
    assert "metadata" not in kind.schema.source["properties"]
    item = result["paths"][
        "/apis/scheduling.example.dev/v1alpha1/namespaces/{namespace}/queues/{name}"
    ]
    assert "application/strategic-merge-patch+json" not in item["patch"]["requestBody"]["content"]
    assert references(result) <= set(result["components"]["schemas"])


def test_changed_custom_kind_changes_only_its_document(builtin: list[Kind]) -> None:
    api = OpenApiDocuments()
    before, apps = "/openapi/v3/apis/scheduling.example.dev/v1alpha1", "/openapi/v3/apis/apps/v1"
    api.update([*builtin, queue()])
    first, copy, listed = api.find(before), api.find(apps), api.find("/openapi/v3")
    api.update([*builtin, queue(weight={"type": "integer"})])
    second = api.find(before)
    assert first is not None
    assert second is not None
    assert first[1] != second[1]
    assert "weight" in json.dumps(json.loads(second[0]))
    assert api.find(apps) == copy
    assert api.find("/openapi/v3") != listed


def test_removed_kind_has_no_document(builtin: list[Kind]) -> None:
    api = OpenApiDocuments()
    path = "/openapi/v3/apis/scheduling.example.dev/v1alpha1"
    api.update([*builtin, queue()])
    assert api.find(path) is not None
    api.update(builtin)
    assert api.find(path) is None


def test_same_kinds_have_the_same_etags(builtin: list[Kind]) -> None:
    one, two = OpenApiDocuments(), OpenApiDocuments()
    one.update(builtin)
    two.update([replace(kind) for kind in builtin])
    assert one.find("/openapi/v3") == two.find("/openapi/v3")
