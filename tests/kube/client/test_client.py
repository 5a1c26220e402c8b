"""The verbs of the client: the requests they send, and how responses are decoded."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    BadRequest,
    Client,
    Conflict,
    ConnectionFailed,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    PatchType,
    Reply,
    Resource,
    TooManyRequests,
    Unauthorized,
    unstructured_resource,
)
from tests.kube.scripted_transport import (
    PODS,
    Pod,
    ScriptedTransport,
    Stream,
    added,
    client_over,
    error_reply,
    page,
    pod,
    reply,
    status_body,
)

pytestmark = pytest.mark.looptime

DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
MANAGER = ("fieldManager", "kilonova")
DRY = ("dryRun", "All")

Call = Callable[[Client], Awaitable[Any]]

REQUESTS: list[tuple[Call, str, str, list[tuple[str, str]], Any]] = [
    (lambda c: c.get(PODS, "a", "x"), "GET", "/api/v1/namespaces/x/pods/a", [], None),
    (lambda c: c.get(NODES, "n"), "GET", "/api/v1/nodes/n", [], None),
    (
        lambda c: c.create(DEPLOYMENTS, {"metadata": {"name": "d"}}, "x", dry_run=True),
        "POST",
        "/apis/apps/v1/namespaces/x/deployments",
        [MANAGER, DRY],
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}},
    ),
    (
        lambda c: c.patch(PODS, "a", {"status": {}}, "x", subresource="status"),
        "PATCH",
        "/api/v1/namespaces/x/pods/a/status",
        [MANAGER],
        {"status": {}},
    ),
    (
        lambda c: c.apply(NODES, "n", {"spec": {}}, force=False, field_manager="me"),
        "PATCH",
        "/api/v1/nodes/n",
        [("fieldManager", "me"), ("force", "false")],
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}},
    ),
    (lambda c: c.delete(NODES, "n"), "DELETE", "/api/v1/nodes/n", [], OPTIONS),
    (
        lambda c: c.delete(
            PODS,
            "a",
            "x",
            grace_period_seconds=0,
            propagation_policy="Orphan",
            uid="u",
            resource_version="7",
        ),
        "DELETE",
        "/api/v1/namespaces/x/pods/a",
        [],
        {
            **OPTIONS,
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        },
    ),
    (
        lambda c: c.delete(NODES, "n", dry_run=True),
        "DELETE",
        "/api/v1/nodes/n",
        [],
        {**OPTIONS, "dryRun": ["All"]},
    ),
    (
        lambda c: c.delete_collection(
            PODS, "x", label_selector="a=b", field_selector="spec.nodeName=n"
        ),
        "DELETE",
        "/api/v1/namespaces/x/pods",
        [("labelSelector", "a=b"), ("fieldSelector", "spec.nodeName=n")],
        OPTIONS,
    ),
    (
        lambda c: c.set_scale(DEPLOYMENTS, "d", "x", 3),
        "PATCH",
        "/apis/apps/v1/namespaces/x/deployments/d/scale",
        [MANAGER],
        {"spec": {"replicas": 3}},
    ),
    (
        lambda c: c.bind("a", "x", "n", uid="u", annotations={"k": "v"}),
        "POST",
        "/api/v1/namespaces/x/pods/a/binding",
        [MANAGER],
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a", "namespace": "x", "uid": "u", "annotations": {"k": "v"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        },
    ),
    (
        lambda c: c.evict("a", "x", grace_period_seconds=5, uid="u"),
        "POST",
        "/api/v1/namespaces/x/pods/a/eviction",
        [],
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "a", "namespace": "x"},
            "deleteOptions": {
                **OPTIONS,
                "gracePeriodSeconds": 5,
                "preconditions": {"uid": "u"},
            },
        },
    ),
]


@pytest.mark.parametrize(("call", "method", "path", "query", "body"), REQUESTS)
async def test_each_verb_sends_one_request(
    call: Call, method: str, path: str, query: list[tuple[str, str]], body: Any
) -> None:
    wire = ScriptedTransport([reply(pod("a", 1))])
    await call(client_over(wire))
    (sent,) = wire.requests
    assert (sent.method, sent.path, sent.query) == (method, path, query)
    assert (json.loads(sent.body) if sent.body else None) == body


@pytest.mark.parametrize("kind", PatchType)
async def test_patch_type_is_sent_as_content_type(kind: PatchType) -> None:
    wire = ScriptedTransport([reply(pod("a", 1))])
    patch: Any = [] if kind is PatchType.JSON else {}
    await client_over(wire).patch(PODS, "a", patch, "x", patch_type=kind)
    assert wire.requests[0].headers["content-type"] == kind.value


async def test_objects_are_decoded_to_the_fields_of_the_projection() -> None:
    found = await client_over(ScriptedTransport([reply(pod("a", 1, node="n"))])).get(PODS, "a", "x")
    assert isinstance(found, Pod)
    assert found.spec.node_name == "n"


async def test_projection_is_applied_without_api_version_and_kind() -> None:
    wire = ScriptedTransport([reply(pod("a", 1))])
    desired = Pod(metadata=None, spec=None)  # type: ignore[arg-type]
    await client_over(wire).apply(PODS, "a", desired, "x")
    body = json.loads(wire.requests[0].body)
    assert body == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


async def test_get_scale_returns_spec_and_status_replicas() -> None:
    scale = {"spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=a"}}
    found = await client_over(ScriptedTransport([reply(scale)])).get_scale(DEPLOYMENTS, "d", "x")
    assert (found.spec.replicas, found.status.replicas, found.status.selector) == (3, 2, "app=a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
async def test_invalid_name_is_not_sent(name: str) -> None:
    wire = ScriptedTransport([])
    with pytest.raises(ValueError, match="cannot be the name"):
        await client_over(wire).get(NODES, name)
    assert wire.requests == []


async def test_namespaced_object_needs_a_namespace() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        await client_over(ScriptedTransport([])).delete(PODS, "a")


async def test_list_reads_all_pages() -> None:
    wire = ScriptedTransport(
        [
            page(pod("a", 1), pod("b", 2), version=9, token="t1"),
            page(pod("c", 3), version=9, token="t2"),
            page(version=9),
        ]
    )
    listing = await client_over(wire).list(
        PODS, label_selector="a=b", limit=2, resource_version="0"
    )
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "9"
    first, second, third = (dict(request.query) for request in wire.requests)
    assert first == {"labelSelector": "a=b", "limit": "2", "resourceVersion": "0"}
    assert second == {"labelSelector": "a=b", "limit": "2", "continue": "t1"}
    assert third["continue"] == "t2"


async def test_list_with_null_items_is_empty() -> None:
    response = reply({"metadata": {"resourceVersion": "3"}, "items": None})
    assert (await client_over(ScriptedTransport([response])).list(PODS)).items == []


async def test_expired_continue_token_restarts_list_finally_unpaged() -> None:
    wire = ScriptedTransport(
        [
            page(pod("old", 1), version=1, token="t"),
            error_reply(410, "Expired"),
            page(pod("old", 1), version=2, token="t"),
            error_reply(410, "Expired"),
            page(pod("new", 3), version=3),
        ]
    )
    listing = await client_over(wire).list(PODS)
    assert [item.metadata.name for item in listing.items] == ["new"]
    assert wire.requests[-1].query_param("limit") is None


ERRORS: list[tuple[int, str, type[ApiStatusError]]] = [
    (400, "BadRequest", BadRequest),
    (401, "Unauthorized", Unauthorized),
    (403, "Forbidden", Forbidden),
    (404, "NotFound", NotFound),
    (409, "AlreadyExists", AlreadyExists),
    (409, "Conflict", Conflict),
    (410, "Gone", Expired),
    (422, "Invalid", Invalid),
    (500, "InternalError", ApiStatusError),
    (503, "ServiceUnavailable", ApiStatusError),
]


@pytest.mark.parametrize(("code", "reason", "expected"), ERRORS)
async def test_status_codes_map_to_error_classes(
    code: int, reason: str, expected: type[ApiStatusError]
) -> None:
    body = status_body(code, reason, "because", details={"causes": [{"field": "spec.x"}]})
    with pytest.raises(ApiStatusError) as caught:
        await client_over(ScriptedTransport([reply(body, code)])).get(NODES, "n")
    assert type(caught.value) is expected
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.message == "because"
    assert caught.value.causes == [{"field": "spec.x"}]


async def test_error_body_without_status_becomes_the_message() -> None:
    wire = ScriptedTransport([Reply(502, b"<html>bad gateway</html>")])
    with pytest.raises(ApiStatusError, match="bad gateway"):
        await client_over(wire).get(NODES, "n")


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b'{"a": 1}'])
async def test_success_that_is_not_json_counts_as_connection_failure(
    body: bytes,
) -> None:
    problems: list[Any] = []
    with pytest.raises(ConnectionFailed, match="the response is not"):
        await client_over(ScriptedTransport([Reply(200, body)])).list(
            PODS, on_undecodable=problems.append
        )
    assert problems == []


async def test_too_many_requests_waits_for_retry_after() -> None:
    wire = ScriptedTransport(
        [
            error_reply(429, "TooManyRequests", retry_after="7"),
            error_reply(503, "ServiceUnavailable", retry_after="3"),
            reply(pod("a", 1)),
        ]
    )
    await client_over(wire).get(PODS, "a", "x")
    assert wire.times == [0, 7, 10]


async def test_retries_are_bounded() -> None:
    wire = ScriptedTransport([error_reply(429, "TooManyRequests") for _ in range(20)])
    with pytest.raises(TooManyRequests):
        await client_over(wire).get(NODES, "n")
    assert wire.times == [0, 1, 2, 3, 4, 5]


async def test_retry_after_above_limit_is_raised() -> None:
    with pytest.raises(TooManyRequests) as caught:
        await client_over(
            ScriptedTransport([error_reply(429, "TooManyRequests", retry_after="600")])
        ).get(NODES, "n")
    assert caught.value.retry_after == 600


async def test_eviction_blocked_by_a_budget_is_not_retried() -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}
    response = reply(status_body(429, "TooManyRequests", details=details), 429, retry_after="10")
    with pytest.raises(TooManyRequests) as caught:
        await client_over(ScriptedTransport([response])).evict("a", "x")
    assert caught.value.blocked_by_disruption_budget


async def test_logs_are_streamed() -> None:
    wire = ScriptedTransport([Stream(b"one\ntw", b"o\n")])
    logs = client_over(wire).logs("a", "x", container="c", follow=True, tail=5, timestamps=True)
    assert [chunk async for chunk in logs] == [b"one\ntw", b"o\n"]
    assert wire.requests[0].path == "/api/v1/namespaces/x/pods/a/log"
    assert dict(wire.requests[0].query) == {
        "container": "c",
        "follow": "true",
        "timestamps": "true",
        "tailLines": "5",
    }


async def test_logs_of_a_missing_pod_are_not_found() -> None:
    with pytest.raises(NotFound):
        [
            chunk
            async for chunk in client_over(ScriptedTransport([error_reply(404, "NotFound")])).logs(
                "a", "x"
            )
        ]


async def test_watch_yields_typed_events_and_closes_on_leaving() -> None:
    wire = ScriptedTransport([Stream(added("a", 5) + added("b", 6))])
    async with client_over(wire).watch(
        PODS, "x", resource_version="4", timeout_seconds=9
    ) as stream:
        batches = [batch async for batch in stream]
        assert wire.open_streams == 1
    names = [event.object.metadata.name for event in batches[0]]  # type: ignore[union-attr]
    assert names == ["a", "b"]
    assert wire.open_streams == 0
    assert dict(wire.requests[0].query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "timeoutSeconds": "9",
    }


async def test_rejected_watch_raises_on_entering() -> None:
    with pytest.raises(Expired):
        async with client_over(ScriptedTransport([error_reply(410, "Expired")])).watch(PODS):
            pytest.fail("the watch was refused")


async def test_leaving_the_client_closes_its_transport() -> None:
    wire = ScriptedTransport([])
    async with client_over(wire):
        assert not wire.closed
    assert wire.closed


def test_resource_can_be_decoded_to_another_type() -> None:
    other: Resource[dict[str, Any]] = PODS.as_type(dict)
    assert other.path("x", "a", "status") == PODS.path("x", "a", "status")
    assert (other.full_name, DEPLOYMENTS.full_name) == ("pods", "deployments.apps")
