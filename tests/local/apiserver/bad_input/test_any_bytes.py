"""Arbitrary bytes as a body, of any content type, to any endpoint that accepts one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.campaigns import limit_examples
from tests.local.apiserver.bad_input.fuzzed_api import (
    DEFINITIONS,
    DEPLOYMENTS,
    GANGS,
    PODS,
    FuzzedApi,
    protobuf_bodies,
)

POD, GANG = f"{PODS}/pod-small", f"{GANGS}/gang"
WRITABLE = [
    ("POST", PODS),
    ("PUT", POD),
    ("PATCH", POD),
    ("PUT", f"{POD}/status"),
    ("PATCH", f"{POD}/status"),
    ("POST", f"{POD}/binding"),
    ("POST", f"{POD}/eviction"),
    ("POST", "/api/v1/namespaces/default/bindings"),
    ("PATCH", f"{POD}/ephemeralcontainers"),
    ("POST", DEPLOYMENTS),
    ("PUT", f"{DEPLOYMENTS}/deployment/scale"),
    ("PATCH", f"{DEPLOYMENTS}/deployment/scale"),
    ("POST", GANGS),
    ("PUT", GANG),
    ("PATCH", GANG),
    ("PUT", f"{GANG}/scale"),
    ("PATCH", f"{GANG}/status"),
    ("POST", DEFINITIONS),
    ("PATCH", f"{DEFINITIONS}/gangs.fuzz.example"),
    ("PUT", "/api/v1/namespaces/default/finalize"),
    ("POST", "/api/v1/namespaces/default/serviceaccounts"),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("POST", "/apis/events.k8s.io/v1/namespaces/default/events"),
]
TYPES = [
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/cbor",
    "text/plain; charset=utf-16",
    ";;",
]
BODIES = [
    b"",
    b"\0",
    b"null",
    b"1",
    b'"text"',
    b"[]",
    b"[[",
    b"{",
    b"\xef\xbb\xbf{}",
    '{"a": 1}'.encode("utf-16"),
    b'{"\xff": 1}',
    b'{"a": "\\ud800"}',
    b'{"a": NaN}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"a": 1e99999}',
    b"[" * 100_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b'{"metadata":{"name":"a"},"metadata":{"name":"b"}}',
    b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    b"&a [*a]",
    b"!!python/object/apply:os.system [x]",
    b"a: !!binary x",
    b"a: !!bool x",
    b"a: !!timestamp x",
    b"a: !!set {x}",
    b"a: .nan",
    b"a: " + b"9" * 5000,
    b"a: 99999999999999999999999",
    b"? [a]\n: b",
    b"? {a: b}\n: c",
    b"1: 2\ntrue: 3\n",
    b"--- a\n--- b",
    b"- " * 20_000 + b"x",
    b"k8s\0",
    b"k8s\0\n",
    b"k8s\0" + b"\xff" * 50,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:24]))
def test_known_malformed_bodies_are_rejected_and_change_nothing(
    fuzzed_api: FuzzedApi, body: bytes
) -> None:
    rejections = 0
    for method, path in WRITABLE:
        for content_type in TYPES:
            query = [("fieldManager", "somebody"), ("dryRun", "All")]
            reply = fuzzed_api.send(method, path, body, content_type, query=query)
            rejections += reply.status >= 400
    assert rejections > len(WRITABLE) * len(TYPES) / 2


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "name", "kind", "target", "op", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=limit_examples(600), derandomize=True, deadline=None, database=None)
@given(
    place=st.sampled_from(WRITABLE),
    content_type=st.sampled_from(TYPES),
    body=st.binary(max_size=200) | json_values | st.lists(json_values, max_size=3),
)
def test_any_body_gets_a_response(
    fuzzed_api: FuzzedApi, place: tuple[str, str], content_type: str, body: Any
) -> None:
    query = [("fieldManager", "somebody"), ("dryRun", "All")]
    assert 200 <= fuzzed_api.send(*place, body, content_type, query=query).status < 600


@settings(max_examples=limit_examples(800), derandomize=True, deadline=None, database=None)
@given(
    body=st.sampled_from(protobuf_bodies()),
    place=st.sampled_from(WRITABLE),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3)), max_size=5),
)
def test_any_protobuf_gets_a_response(
    fuzzed_api: FuzzedApi, body: bytes, place: tuple[str, str], changes: list[tuple[int, bytes]]
) -> None:
    changed = bytearray(body)
    for position, new in changes:
        start = 4 + position % (len(changed) - 4)
        changed[start : start + max(1, len(new))] = new
        if len(changed) < 6:
            break
    protobuf = "application/vnd.kubernetes.protobuf"
    query = [("dryRun", "All")]
    assert fuzzed_api.send(*place, bytes(changed), protobuf, query=query).status >= 200


def test_huge_annotation_is_rejected(fuzzed_api: FuzzedApi) -> None:
    pod = {"metadata": {"name": "a", "annotations": {"a": "x" * (10 << 20)}}}
    assert fuzzed_api.send("POST", PODS, pod).status == 413
