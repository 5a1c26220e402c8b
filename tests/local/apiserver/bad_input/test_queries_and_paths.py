"""Any query, any path, any Accept header."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.campaigns import limit_examples
from tests.local.apiserver.bad_input.fuzzed_api import DEPLOYMENTS, GANGS, PODS, TABLE, FuzzedApi

NAMES = [
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "dryRun",
    "fieldValidation",
    "fieldManager",
    "propagationPolicy",
    "gracePeriodSeconds",
    "includeObject",
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "force",
    "tailLines",
    "sinceSeconds",
    "sinceTime",
]
VALUES = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "1.5",
        "true",
        "99999999999999999999",
        "9" * 5000,
        "\0",
        "²",
        "١",
        "a in (b",
        "a notin ()",
        "!a,=,",
        "a>99999999999999999999",
        "metadata.name=a,metadata.name=b",
        "spec.nodeName!=y",
        "x.y=z",
        "All",
        "Strict",
        "Orphan",
        "Exact",
        "NotOlderThan",
        "None",
        "Object",
        "a" * 20_000,
        "bnVsbA",
        "W10",
        "====",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vIn0",
    ]
) | st.text(max_size=6)
ACCEPTS = [
    "",
    "*/*",
    "text/html",
    ",,;",
    "application/json;q=nan",
    "application/json;q=inf, */*;q=-1",
    "application/json;as=Table",
    TABLE,
    TABLE.replace("v=v1;", "v=v9;"),
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "a;b=c;" * 50,
    "\0é",
]
PLACES = [
    PODS,
    f"{PODS}/pod-small",
    f"{PODS}/pod-small/log",
    DEPLOYMENTS,
    f"{DEPLOYMENTS}/deployment/scale",
    GANGS,
    f"{GANGS}/gang",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/apis",
    "/openapi/v3",
    "/readyz",
]


@settings(max_examples=limit_examples(1500), derandomize=True, deadline=None, database=None)
@given(
    method=st.sampled_from(
        ["GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"]
    ),
    path=st.sampled_from(PLACES),
    query=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5),
    watched=st.booleans(),
    accept=st.sampled_from(ACCEPTS),
)
def test_any_query_gets_a_response(
    fuzzed_api: FuzzedApi,
    method: str,
    path: str,
    query: list[tuple[str, str]],
    watched: bool,
    accept: str,
) -> None:
    if method == "GET" and watched:
        query = [*query, ("watch", "1")]
    elif method != "GET":
        query = [*query, ("dryRun", "All")]
    reply = fuzzed_api.send(method, path, b"", "application/merge-patch+json", accept, query)
    assert 200 <= reply.status < 600


SEGMENTS = st.sampled_from(
    [
        "",
        "..",
        "%2e%2e",
        "%2F",
        "%00",
        "%",
        "%zz",
        "%ff",
        "é",
        "a" * 9000,
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "pod-small",
        "status",
        "log",
        "scale",
        "fuzz.example",
        "gangs",
        "healthz",
        "openapi",
        "v3",
        "watch",
        "~",
        ";",
    ]
) | st.text(max_size=5)


@settings(max_examples=limit_examples(1500), derandomize=True, deadline=None, database=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
    path=st.lists(SEGMENTS, max_size=9)
    | st.tuples(st.sampled_from(PLACES), st.integers(0, 8), st.lists(SEGMENTS, max_size=2)).map(
        lambda made: [*made[0].split("/")[1 : made[1]], *made[2], *made[0].split("/")[made[1] :]]
    ),
)
def test_any_path_gets_a_response(fuzzed_api: FuzzedApi, method: str, path: list[str]) -> None:
    query = [("dryRun", "All")] if method != "GET" else []
    reply = fuzzed_api.send(method, "/" + "/".join(path), b"{}", query=query)
    assert 200 <= reply.status < 500


@pytest.mark.parametrize("limit", ["9223372036854775807", "99999999999999999999"])
def test_huge_limit_is_accepted(fuzzed_api: FuzzedApi, limit: str) -> None:
    assert fuzzed_api.send("GET", PODS, query=[("limit", limit)]).status in (200, 400)


def test_invalid_watch_is_rejected_before_it_starts(fuzzed_api: FuzzedApi) -> None:
    query = [("watch", "1"), ("includeObject", "Everything")]
    reply = fuzzed_api.send("GET", PODS, accept=TABLE, query=query)
    assert reply.status == 400
    assert "includeObject" in json.loads(reply.body)["message"]
