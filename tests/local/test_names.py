"""Names, labels and metadata: what is accepted, and the words for what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.names import (
    Rule,
    dns_1035_label,
    dns_label,
    dns_subdomain,
    env_name,
    label_value,
    object_meta_problems,
    path_segment,
    port_name,
    qualified_name,
)

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("rule", "name", "answer"),
    [
        (dns_subdomain, "example.com", None),
        (dns_subdomain, "Up", SUBDOMAIN),
        (dns_subdomain, "a" * 254, "must be no more than 253 characters"),
        (dns_label, "my-name", None),
        (dns_label, "a.b", "must not contain dots"),
        (dns_label, "a" * 64, "must be no more than 63 characters"),
        (dns_1035_label, "a1", None),
        (qualified_name, "example.com/Name_1.x", None),
        (qualified_name, "/name", "prefix part must be non-empty"),
        (qualified_name, "a/", "name part must be non-empty"),
        (qualified_name, "x" * 64, "name part must be no more than 63 bytes"),
        (label_value, "", None),
        (label_value, "x" * 64, "must be no more than 63 bytes"),
        (path_segment, "system:anything", None),
        (path_segment, "a/b", "may not contain '/'"),
        (path_segment, "..", "may not be '..'"),
        (port_name, "http", None),
        (port_name, "123", "must contain at least one letter (a-z)"),
        (port_name, "a--b", "must not contain consecutive hyphens"),
        (env_name, "any thing", None),
    ],
)
def test_a_rule_answers_why_not(rule: Rule, name: str, answer: str | None) -> None:
    assert rule(name) == answer


def test_a_label_that_starts_with_a_digit_is_no_dns_1035_label() -> None:
    assert "start with an alphabetic character" in (dns_1035_label("1a") or "")


def test_two_prefixes_are_no_qualified_name() -> None:
    assert (qualified_name("a/b/c") or "").startswith("a valid label key must consist of")


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_every_label_is_a_subdomain_and_a_qualified_name(name: str) -> None:
    assert dns_label(name) is None
    assert dns_subdomain(name) is None
    assert qualified_name(name) is None


def problems(meta: dict, namespaced: bool = True) -> list[str]:
    return [str(problem) for problem in object_meta_problems(meta, namespaced, dns_subdomain)]


def test_good_metadata_has_no_problems() -> None:
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
def test_metadata_is_refused_in_the_words_of_kubernetes(
    meta: dict, namespaced: bool, expected: list[str]
) -> None:
    assert problems(meta, namespaced) == expected


def test_only_one_owner_may_control() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    (problem,) = problems({"name": "a", "namespace": "b", "ownerReferences": [owner, owner]})
    assert 'Found "true" in references for Pod/p and Pod/p' in problem
