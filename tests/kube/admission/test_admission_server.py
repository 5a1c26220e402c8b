"""Reviews over a real HTTPS connection: mutate, deny, and every kind of bad request."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionServer,
    Allowed,
    Denied,
    FieldError,
    FolderSource,
    Mutated,
    create_json_patch,
    deny_invalid,
)
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.health import Health
from kilonova.local.apimachinery.patch.json import json_patch


async def label(review: AdmissionRequest) -> AdmissionResponse:
    assert review.object is not None
    review.object["metadata"].setdefault("labels", {})["seen/by"] = "us"
    return Mutated(review.object, warnings=("be careful",), audit_annotations={"label": "added"})


async def check(review: AdmissionRequest) -> AdmissionResponse:
    replicas = (review.object or {})["spec"]["replicas"]
    if replicas > 100:
        problem = FieldError("spec.replicas", f"must be at most 100, is {replicas}")
        return deny_invalid(problem, request=review)
    return Allowed()


async def forbid(review: AdmissionRequest) -> AdmissionResponse:
    return Denied(f"{review.user_info.username} may not {review.operation}")


async def crash(review: AdmissionRequest) -> AdmissionResponse:
    raise KeyError("spec")


async def hang(review: AdmissionRequest) -> AdmissionResponse:
    await asyncio.Event().wait()
    return Allowed()


HANDLERS = {"/label": label, "/check": check, "/forbid": forbid, "/crash": crash, "/hang": hang}


class WebhookCaller:
    """Calls the server as the API server does."""

    def __init__(self, url: str, http: aiohttp.ClientSession, context: ssl.SSLContext) -> None:
        self.url = url
        self.http = http
        self.context = context

    async def post(self, path: str, body: bytes) -> tuple[int, str]:
        async with self.http.post(self.url + path, data=body, ssl=self.context) as reply:
            return reply.status, await reply.text()

    async def review(self, path: str, obj: Any, **more: Any) -> dict[str, Any]:
        request = {"uid": "u-1", "operation": "CREATE", "object": obj, "kind": {"kind": "Set"}}
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request | more,
        }
        status, answer = await self.post(path, msgspec.json.encode(body))
        assert status == 200, answer
        decoded = msgspec.json.decode(answer)
        assert (decoded["kind"], decoded["apiVersion"]) == (body["kind"], body["apiVersion"])
        assert decoded["response"]["uid"] == "u-1"
        return decoded["response"]


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[WebhookCaller]:
    source = FolderSource(tmp_path / "certificates", ["127.0.0.1"])
    server = AdmissionServer(HANDLERS, source, host="127.0.0.1", port=0, routes=Health().routes())
    port = server.bind()
    running = asyncio.create_task(server.run())
    while not server.ca_pem:
        await asyncio.sleep(0)
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    async with aiohttp.ClientSession() as http:
        yield WebhookCaller(f"https://127.0.0.1:{port}", http, context)
    server.stop()
    await running


async def test_mutation_is_returned_as_json_patch(caller):
    response = await caller.review("/label", {"metadata": {"name": "x"}})
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    patch = msgspec.json.decode(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/metadata/labels", "value": {"seen/by": "us"}}]
    assert response["warnings"] == ["be careful"]
    assert response["auditAnnotations"] == {"label": "added"}


async def test_unchanged_mutation_has_no_patch(caller):
    response = await caller.review("/label", {"metadata": {"labels": {"seen/by": "us"}}})
    assert response["allowed"] is True
    assert "patch" not in response
    assert "patchType" not in response


async def test_denial_names_the_object_and_the_invalid_field(caller):
    assert (await caller.review("/check", {"spec": {"replicas": 100}}))["allowed"] is True
    response = await caller.review("/check", {"spec": {"replicas": 101}}, name="big")
    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "spec.replicas: must be at most 100, is 101",
        "details": {
            "kind": "Set",
            "name": "big",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.replicas",
                    "message": "must be at most 100, is 101",
                }
            ],
        },
    }


async def test_handler_sees_user_and_operation(caller):
    response = await caller.review(
        "/forbid", None, operation="DELETE", userInfo={"username": "eve", "groups": ["g"]}
    )
    assert response["status"]["message"] == "eve may not DELETE"
    assert response["status"]["code"] == 403


async def test_raising_handler_denies_with_500(caller):
    response = await caller.review("/crash", {})
    assert response["allowed"] is False
    assert response["status"]["code"] == 500
    assert response["status"]["message"] == "/crash failed: KeyError('spec')"


async def test_hanging_handler_denies_before_the_api_server_times_out(caller):
    response = await asyncio.wait_for(caller.review("/hang?timeout=1s", {}), 1)
    assert response["status"]["code"] == 504
    assert response["status"]["message"] == "/hang did not decide within 0.5 s"


REVIEW = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%s}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"kind: AdmissionReview", "the body is not JSON"),
        (b"[]", "the body is not an AdmissionReview: Expected `object`, got `array`"),
        (b"{}", "expected AdmissionReview of admission.k8s.io/v1, got no kind of no apiVersion"),
        (
            b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
            "got AdmissionReview of admission.k8s.io/v1beta1",
        ),
        (b'{"apiVersion":"v1","kind":"Pod"}', "got Pod of v1"),
        (REVIEW % b"null", "request is missing"),
        (REVIEW % b"{}", "request: Object missing required field `uid`"),
        (REVIEW % b'{"uid":"","operation":"CREATE"}', "request.uid is missing"),
        (REVIEW % b'{"uid":"u","operation":"EAT"}', "Invalid enum value 'EAT'"),
        (
            REVIEW % b'{"uid":"u","operation":"CREATE","object":3}',
            "Expected `object | null`, got `int` - at `$.object`",
        ),
    ],
)
async def test_invalid_review_is_answered_with_400_and_cause(caller, body, message):
    status, answer = await caller.post("/check", body)
    assert status == 400
    assert message in answer


async def test_body_above_limit_is_rejected(caller):
    status, answer = await caller.post("/check", b" " * (9 * 1024 * 1024))
    assert status == 413
    assert "larger than 8388608 bytes" in answer


async def test_other_methods_and_paths_are_rejected(caller):
    async with caller.http.get(f"{caller.url}/check", ssl=caller.context) as reply:
        assert reply.status == 405
    assert (await caller.post("/nowhere", b"{}"))[0] == 404


async def test_health_routes_are_served_on_the_same_port(caller):
    async with caller.http.get(f"{caller.url}/readyz", ssl=caller.context) as reply:
        assert (reply.status, await reply.text()) == (200, "ok")


async def test_plain_http_is_rejected(caller):
    with pytest.raises(aiohttp.ClientError):
        await caller.http.get(caller.url.replace("https", "http") + "/check")


async def test_admission_requests_are_counted(tmp_path):
    metrics = Metrics()
    source = FolderSource(tmp_path, ["127.0.0.1"])
    server = AdmissionServer(HANDLERS, source, host="127.0.0.1", port=0, metrics=metrics)
    port = server.bind()
    running = asyncio.create_task(server.run())
    while not server.ca_pem:
        await asyncio.sleep(0)
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    async with aiohttp.ClientSession() as http:
        caller = WebhookCaller(f"https://127.0.0.1:{port}", http, context)
        await caller.review("/check", {"spec": {"replicas": 101}})
    server.stop()
    await running
    sample = metrics.registry.get_sample_value
    name = "controller_runtime_webhook_requests_total"
    assert sample(name, {"webhook": "/check", "code": "422"}) == 1
    assert sample("kilonova_certificate_expiry_timestamp_seconds", {"name": "admission"})


# --- the patch


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1]}, {"a": [True]}, [{"op": "replace", "path": "/a/0", "value": True}]),
        ({"a/b~c": 1}, {}, [{"op": "remove", "path": "/a~1b~0c"}]),
        (
            {"a": [1, 2, 4]},
            {"a": [1, 2, 3, 4]},
            [{"op": "add", "path": "/a/2", "value": 3}],
        ),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
        (
            {"c": [{"name": "x", "image": "a"}]},
            {"c": [{"name": "x", "image": "b"}]},
            [{"op": "replace", "path": "/c/0/image", "value": "b"}],
        ),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    ],
)
def test_json_patch_has_only_the_difference(old, new, patch):
    assert create_json_patch(old, new) == patch


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b/", "~c", ""]), inner, max_size=3)
    ),
    max_leaves=15,
)
objects = st.dictionaries(st.sampled_from(["a", "b/", "~c"]), values, max_size=3)


@given(objects, objects)
def test_json_patch_turns_old_object_into_new(old, new):
    patched = json_patch(old, create_json_patch(old, new))
    assert msgspec.json.encode(patched, order="sorted") == msgspec.json.encode(new, order="sorted")
