"""Discovery in both forms; the expected values are those of a genuine server."""

from typing import Any

import pytest

from kilonova.local.apiserver.endpoints.discovery import (
    AGGREGATED,
    compute_etag,
    discovery_document,
    version_priority,
)
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy, Subresource
from kilonova.local.apiserver.schema.node import Schema

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
GROUPS = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
]


def custom(group: str, version: str, plural: str, **more) -> Kind:
    return Kind(
        group=group,
        version=version,
        kind=plural.capitalize(),
        plural=plural,
        singular=plural.removesuffix("s"),
        namespaced=True,
        verbs=VERBS,
        load_schema=Schema,
        strategy=KindStrategy(),
        is_custom=True,
        **more,
    )


def _document(path: str, kinds: list[Kind], *, aggregated: bool = False) -> Any:
    return discovery_document(path.strip("/").split("/"), kinds, aggregated=aggregated)


@pytest.fixture(scope="module")
def kinds() -> list[Kind]:
    scale = Subresource("scale", "Scale", "autoscaling", "v1", ("get", "patch", "update"))
    return [
        *builtin_kinds(),
        custom("zoo.example.com", "v1", "tigers"),
        custom("alpha.example.com", "v1alpha1", "gadgets"),
        custom("alpha.example.com", "v1", "gadgets", subresources={"scale": scale}),
    ]


def test_groups_are_in_the_order_of_kubernetes_then_custom_by_name(kinds) -> None:
    found = _document("/apis", kinds)
    assert found is not None
    names = [group["name"] for group in found["groups"]]
    assert names == [*GROUPS, "alpha.example.com", "zoo.example.com"]


def test_most_stable_version_is_preferred(kinds) -> None:
    preferred = {
        path: (_document(path, kinds) or {})["preferredVersion"]["version"]
        for path in ("/apis/autoscaling", "/apis/alpha.example.com")
    }
    assert preferred == {"/apis/autoscaling": "v2", "/apis/alpha.example.com": "v1"}


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    versions = ["foo", "v1alpha2", "v11", "v2beta1", "v1", "v2", "v1beta10", "v1beta2"]
    best_first = ["v11", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha2", "foo"]
    assert sorted(versions, key=version_priority) == best_first


def test_core_versions(kinds) -> None:
    found = _document("/api", kinds) or {}
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_resources_are_followed_by_their_subresources(kinds) -> None:
    found = _document("/apis/apps/v1", kinds) or {}
    assert found["groupVersion"] == "apps/v1"
    assert found["apiVersion"] == "v1"
    listed = {each["name"]: each for each in found["resources"]}
    assert list(listed)[3:6] == ["deployments", "deployments/scale", "deployments/status"]
    assert listed["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": sorted(VERBS),
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",
    }
    assert listed["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    assert "group" not in listed["deployments/status"]


def test_resources_that_share_a_storage_have_one_hash(kinds) -> None:
    hashes = {
        path: [
            each["storageVersionHash"]
            for each in (_document(path, kinds) or {})["resources"]
            if each["name"] == name
        ]
        for path, name in (
            ("/api/v1", "events"),
            ("/apis/events.k8s.io/v1", "events"),
            ("/apis/autoscaling/v1", "horizontalpodautoscalers"),
        )
    }
    assert hashes == {
        "/api/v1": ["r2yiGXH7wu8="],
        "/apis/events.k8s.io/v1": ["r2yiGXH7wu8="],
        "/apis/autoscaling/v1": ["qwQve8ut294="],
    }


def test_virtual_resource_has_no_storage_version_hash(kinds) -> None:
    reviews = _document("/apis/authentication.k8s.io/v1", kinds) or {}
    assert all("storageVersionHash" not in each for each in reviews["resources"])


def test_core_resource_list_has_no_api_version(kinds) -> None:
    found = _document("/api/v1", kinds) or {}
    assert "apiVersion" not in found
    assert found["resources"][0]["name"] == "bindings"


def test_aggregated_discovery_has_all_groups_with_their_resources(kinds) -> None:
    found = _document("/apis", kinds, aggregated=True) or {}
    assert found["kind"] == "APIGroupDiscoveryList"
    groups = {group["metadata"]["name"]: group for group in found["items"]}
    assert list(groups)[:20] == GROUPS
    deployments = groups["apps"]["versions"][0]["resources"][2]
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }


def test_custom_kinds_repeat_their_version_in_the_aggregated_form(kinds) -> None:
    found = _document("/apis", kinds, aggregated=True) or {}
    alpha = found["items"][-2]
    assert [version["version"] for version in alpha["versions"]] == ["v1", "v1alpha1"]
    assert alpha["versions"][0]["freshness"] == "Current"
    assert alpha["versions"][0]["resources"][0]["responseKind"] == {
        "group": "alpha.example.com",
        "version": "v1",
        "kind": "Gadgets",
    }


def test_aggregated_core_group_has_no_name(kinds) -> None:
    found = _document("/api", kinds, aggregated=True) or {}
    assert [group["metadata"] for group in found["items"]] == [{}]


@pytest.mark.parametrize(
    "path", ["/apis/none", "/apis/apps/v9", "/api/v9", "/apis//v1", "/apis/apps/v1/x"]
)
def test_unserved_path_has_no_discovery_document(kinds, path: str) -> None:
    assert _document(path, kinds) is None


def test_etag_follows_the_content() -> None:
    assert compute_etag(b"a") == compute_etag(b"a") != compute_etag(b"b")
    assert compute_etag(b"a").startswith('"')
    assert "as=APIGroupDiscoveryList" in AGGREGATED
