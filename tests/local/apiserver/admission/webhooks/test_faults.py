"""Webhooks that hang or return invalid responses: reported as by Kubernetes, on both servers."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.local.apiserver.admission.webhooks.webhook_server import (
    Answer,
    Behaviour,
    Json,
    WebhookServer,
    patched,
    raw_review,
    review,
    serve_webhooks,
    wait_until,
    webhook,
)

FAILED = 'failed calling webhook "{name}.example.com": '
CALL = FAILED + "failed to call webhook: "
ANSWER = FAILED + "received invalid webhook response: "
DENIED = 'admission webhook "{name}.example.com" denied the request'
TEXT = {"Content-Type": "text/plain"}


@dataclass(frozen=True)
class Fault:
    """The behaviour of a webhook, and the resulting message: `{name}`, `{url}` are substituted."""

    name: str
    act: Behaviour | None
    message: str
    code: int = 500
    mutating: bool = False


def says(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    return lambda request: Answer(body, status, headers or {"Content-Type": "application/json"})


def text(status: int, body: bytes) -> Behaviour:
    return lambda request: Answer(body, status, TEXT)


def with_patch(content: str, kind: str | None = "JSONPatch") -> Behaviour:
    encoded = b64encode(content.encode()).decode()
    more: Json = {"patch": encoded} | ({} if kind is None else {"patchType": kind})
    return lambda request: review(request, **more)


def operation(op: str, path: str, *value: Any) -> Behaviour:
    step: Json = {"op": op, "path": path} | ({"value": value[0]} if value else {})
    return lambda request: patched(request, step)


def refuses(status: Json | None) -> Behaviour:
    reported: Json = {} if status is None else {"status": status}
    return lambda request: review(request, allowed=False, **reported)


NO_KIND = "couldn't get version/kind; json parse error: "
FAULTS = [
    # Malformed responses.
    Fault("hang", None, CALL + 'Post "{url}/hang?timeout=1s": context deadline exceeded'),
    Fault("text", text(200, b"hello"), CALL + NO_KIND + "json: cannot unmarshal string into Go"),
    Fault("half", says(b'{"apiVersion":"adm'), CALL + NO_KIND + "unexpected end of JSON input"),
    Fault("list", says(b"[]"), CALL + NO_KIND + "json: cannot unmarshal array into Go value"),
    Fault("empty", says(b""), CALL + "0-length response with status code: 200 and content type"),
    Fault("nothing", says(b"{}"), ANSWER + "webhook response was absent"),
    # Statuses.
    Fault("broken", text(500, b"boom"), CALL + 'an error on the server ("boom") has prevented'),
    Fault("absent", text(404, b"no"), CALL + "the server could not find the requested resource"),
    Fault("busy", text(429, b"no"), CALL + "the server has received too many requests and has"),
    Fault("down", text(503, b"no"), CALL + "the server is currently unable to handle the request"),
    Fault("tea", text(418, b"no"), CALL + "the server responded with the status code 418 but did"),
    Fault(
        "status",
        says(json.dumps({"kind": "Status", "status": "Failure", "message": "mine"}).encode(), 500),
        CALL + "mine",
    ),
    # Contradictory responses.
    Fault(
        "uid",
        lambda request: raw_review({"uid": "other", "allowed": True}),
        ANSWER + 'expected response.uid="[-0-9a-f]+", got "other"',
    ),
    Fault(
        "beta",
        lambda request: raw_review(
            {"uid": request["uid"], "allowed": True}, apiVersion="admission.k8s.io/v1beta1"
        ),
        CALL + r"converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    Fault(
        "kind",
        lambda request: raw_review({"uid": request["uid"], "allowed": True}, kind="Pod"),
        CALL + 'no kind "Pod" is registered for version "admission.k8s.io/v1" in scheme',
    ),
    Fault(
        "types",
        lambda request: raw_review({"uid": request["uid"], "allowed": "yes"}),
        CALL + "json: cannot unmarshal string into Go struct field AdmissionResponse.response."
        "allowed of type bool",
    ),
    Fault(
        "patching", with_patch("[]"), ANSWER + "validating webhook may not return response.patch"
    ),
    # Patches.
    Fault(
        "untyped",
        with_patch("[]", None),
        ANSWER + "webhook returned response.patch but not response.patchType",
        mutating=True,
    ),
    Fault(
        "merge",
        with_patch("[{}]", "Merge"),
        FAILED + 'unsupported patch type "Merge"',
        mutating=True,
    ),
    Fault(
        "base64",
        lambda request: review(request, patch="***", patchType="JSONPatch"),
        CALL + "illegal base64 data at input byte 0",
        mutating=True,
    ),
    Fault(
        "nonsense",
        with_patch("hello"),
        FAILED + "received undecodable patch in webhook response: invalid character 'h' looking",
        mutating=True,
    ),
    Fault("jump", operation("jump", "/data"), "Unexpected kind: jump", mutating=True),
    Fault(
        "test",
        operation("test", "/metadata/name", "z"),
        "testing value /metadata/name failed: test failed",
        mutating=True,
    ),
    Fault(
        "schema",
        operation("add", "/data", {"a": 1}),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        mutating=True,
    ),
    Fault(
        "rename",
        operation("replace", "/metadata/name", "A_B"),
        'ConfigMap "A_B" is invalid: metadata.name: Invalid value: "A_B"',
        422,
        mutating=True,
    ),
    Fault(
        "move",
        operation("replace", "/metadata/namespace", "elsewhere"),
        "the namespace of the provided object does not match the namespace sent on the request",
        400,
        mutating=True,
    ),
    # Denials.
    Fault("no", refuses(None), DENIED + " without explanation", 400),
    Fault("never", refuses({"message": "no way"}), DENIED + ": no way", 400),
    Fault("forbids", refuses({"reason": "Forbidden", "code": 403}), DENIED + ": Forbidden", 403),
    Fault(
        "polite", refuses({"message": "m", "code": 200, "status": "Success"}), DENIED + ": m", 400
    ),
]


def in_name_of(fault: Fault, server: WebhookServer, namespace: str) -> Json:
    """A webhook for the one ConfigMap of that name."""
    return webhook(
        server,
        fault.name,
        f"/{fault.name}",
        timeoutSeconds=1 if fault.name == "hang" else 10,
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        matchConditions=[
            {"name": "named", "expression": f"object.metadata.name == '{fault.name}'"}
        ],
    )


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with serve_webhooks(tmp_path_factory.mktemp("faulty"), {}) as server:
        server.behaviours |= {f"/{fault.name}": fault.act or server.hang for fault in FAULTS}
        server.behaviours["/ready"] = review
        yield server


@pytest.fixture(params=["embedded", "kubernetes"], scope="module")
def asking(request: pytest.FixtureRequest, faulty: WebhookServer) -> Iterator[Api]:
    """Each server in turn, with all the faulty webhooks configured."""
    fixture = {"embedded": "embedded_server", "kubernetes": "control_plane"}[request.param]
    running: EmbeddedServer | ControlPlane = request.getfixturevalue(fixture)
    api = Api(request.param, running.access, "faulty-webhooks")
    api.access.request("POST", "/api/v1/namespaces", {"metadata": {"name": api.namespace}})
    ready = Fault("ready", review, "")
    base = "/apis/admissionregistration.k8s.io/v1"
    for kind, wanted in (("mutating", True), ("validating", False)):
        selected = [fault for fault in FAULTS if fault.mutating is wanted]
        hooks = [in_name_of(fault, faulty, api.namespace) for fault in (*selected, ready)]
        body = {"metadata": {"name": "faulty"}, "webhooks": hooks}
        status, response = api.access.request("POST", f"{base}/{kind}webhookconfigurations", body)
        assert status == 201, response
    before = len(faulty.requests("/ready"))
    wait_until(lambda: bool(_create(api, "ready")) and len(faulty.requests("/ready")) >= before + 2)
    yield api
    for kind in ("mutating", "validating"):
        api.access.request("DELETE", f"{base}/{kind}webhookconfigurations/faulty")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_faulty_webhook_is_reported(asking: Api, faulty: WebhookServer, fault: Fault) -> None:
    code, response = _create(asking, fault.name)
    expected = fault.message.format(name=fault.name, url=faulty.url)
    if fault.code == 500:
        expected = f"Internal error occurred: {expected}"
        assert response["details"]["causes"][0]["message"] in response["message"]
    assert (code, response["code"]) == (fault.code, fault.code)
    reported: str = response["message"]
    assert reported.startswith(expected) or re.match(expected, reported), reported


def _create(api: Api, name: str) -> tuple[int, Any]:
    path = f"/api/v1/namespaces/{api.namespace}/configmaps?dryRun=All"
    return api.access.request("POST", path, {"metadata": {"name": name}, "data": {"q": "1"}})


def test_oversized_responses_and_redirects_are_rejected(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    acts: dict[str, Behaviour] = {
        "/huge": lambda request: review(request, more="x" * (9 << 20)),
        "/moved": lambda request: Answer(b"", 307, {"Location": "/ok"}),
        "/ok": review,
    }
    access = embedded_server.access
    base = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    with serve_webhooks(tmp_path / "tls", acts) as server:
        for name, reported in (("huge", "longer than 8388608 bytes"), ("moved", "status code 307")):
            hook = webhook(server, name, f"/{name}", namespaceSelector=_only("default"))
            access.request("POST", base, {"metadata": {"name": name}, "webhooks": [hook]})
            path = "/api/v1/namespaces/default/configmaps?dryRun=All"
            _, response = access.request("POST", path, {"metadata": {"name": "x"}})
            access.request("DELETE", f"{base}/{name}")
            assert reported in response["message"]
        assert not server.requests("/ok")


def test_webhook_with_untrusted_certificate_is_not_called(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    access = embedded_server.access
    base = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    with serve_webhooks(tmp_path / "tls", {"/ok": review}, ("other.example.com",)) as server:
        for bundle, reported in (
            ("", "x509: certificate signed by unknown authority"),
            (server.ca_bundle, "x509: certificate is not valid for '127.0.0.1'"),
            (b64encode(b"hello").decode(), "unable to parse bytes as PEM block"),
        ):
            config = {"url": f"{server.url}/ok", "caBundle": bundle}
            hook = webhook(
                server, "tls", "/ok", clientConfig=config, namespaceSelector=_only("default")
            )
            access.request("POST", base, {"metadata": {"name": "tls"}, "webhooks": [hook]})
            _, response = access.request("POST", path, {"metadata": {"name": "x"}})
            access.request("DELETE", f"{base}/tls")
            assert reported in response["message"]
        assert not server.asked


def _only(namespace: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
