"""Validation of names, labels and metadata."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.names import (
    NameValidator,
    dns_1035_label_error,
    dns_label_error,
    dns_subdomain_error,
    env_name_error,
    label_value_error,
    path_segment_error,
    port_name_error,
    qualified_name_error,
    validate_object_meta,
)

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("rule", "name", "answer"),
    [
        (dns_subdomain_error, "example.com", None),
        (dns_subdomain_error, "Up", SUBDOMAIN),
        (dns_subdomain_error, "a" * 254, "must be no more than 253 characters"),
        (dns_label_error, "my-name", None),
        (dns_label_error, "a.b", "must not contain dots"),
        (dns_label_error, "a" * 64, "must be no more than 63 characters"),
        (dns_1035_label_error, "a1", None),
        (qualified_name_error, "example.com/Name_1.x", None),
        (qualified_name_error, "/name", "prefix part must be non-empty"),
        (qualified_name_error, "a/", "name part must be non-empty"),
        (qualified_name_error, "x" * 64, "name part must be no more than 63 bytes"),
        (label_value_error, "", None),
        (label_value_error, "x" * 64, "must be no more than 63 bytes"),
        (path_segment_error, "system:anything", None),
        (path_segment_error, "a/b", "may not contain '/'"),
        (path_segment_error, "..", "may not be '..'"),
        (port_name_error, "http", None),
        (port_name_error, "123", "must contain at least one letter (a-z)"),
        (port_name_error, "a--b", "must not contain consecutive hyphens"),
        (env_name_error, "any thing", None),
    ],
)
def test_invalid_name_has_a_message(rule: NameValidator, name: str, answer: str | None) -> None:
    assert rule(name) == answer


def test_dns_1035_label_must_not_start_with_a_digit() -> None:
    assert "start with an alphabetic character" in (dns_1035_label_error("1a") or "")


def test_qualified_name_has_at_most_one_prefix() -> None:
    assert (qualified_name_error("a/b/c") or "").startswith("a valid label key must consist of")


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_every_label_is_a_subdomain_and_a_qualified_name(name: str) -> None:
    assert dns_label_error(name) is None
    assert dns_subdomain_error(name) is None
    assert qualified_name_error(name) is None


def problems(meta: dict, namespaced: bool = True) -> list[str]:
    return [str(problem) for problem in validate_object_meta(meta, namespaced, dns_subdomain_error)]


def test_valid_metadata_has_no_errors() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    meta = {
        "name": "a",
        "generateName": "a-",
        "namespace": "b",
        "labels": {"example.com/a": "b"},
        "annotations": {"Example.com/A": "anything at all"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [owner, {**owner, "controller": True}],
    }
    assert problems(meta) == []


@pytest.mark.parametrize(
    ("meta", "namespaced", "expected"),
    [
        (
            {"namespace": "b"},
            True,
            ["metadata.name: Required value: name or generateName is required"],
        ),
        ({"name": "a"}, True, ["metadata.namespace: Required value"]),
        (
            {"name": "a", "namespace": "b"},
            False,
            ["metadata.namespace: Forbidden: not allowed on this type"],
        ),
        (
            {"name": "a", "namespace": "b", "annotations": {"a": "x" * 300_000}},
            True,
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            {"name": "a", "namespace": "b", "finalizers": ["orphan", "foregroundDeletion"]},
            True,
            [
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            ],
        ),
        (
            {
                "name": "a",
                "namespace": "b",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}],
            },
            True,
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
        ),
    ],
)
def test_metadata_is_rejected_with_kubernetes_messages(
    meta: dict, namespaced: bool, expected: list[str]
) -> None:
    assert problems(meta, namespaced) == expected


def test_only_one_owner_may_be_the_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    (problem,) = problems({"name": "a", "namespace": "b", "ownerReferences": [owner, owner]})
    assert 'Found "true" in references for Pod/p and Pod/p' in problem
