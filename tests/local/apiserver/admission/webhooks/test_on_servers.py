"""Webhooks on the embedded API server and on a genuine kube-apiserver."""

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.apiserver.admission.webhooks.webhook_server import (
    Answer,
    Json,
    WebhookServer,
    patched,
    review,
    serve_webhooks,
    wait_until,
    webhook,
)

BASE = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENT = {
    "replicas": 0,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


@pytest.fixture
def server(tmp_path: Path) -> Generator[WebhookServer]:
    with serve_webhooks(tmp_path / "tls", {"/ok": review}) as running:
        yield running


@contextlib.contextmanager
def configured(api: Api, server: WebhookServer, kind: str, *webhooks: Json) -> Generator[None]:
    """Webhooks for this test's namespace; returns when the server has observed them."""
    path, name = f"{BASE}/{kind}webhookconfigurations", api.namespace
    only = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    server.behaviours.setdefault("/probe", review)
    for each in webhooks:
        each["namespaceSelector"] = only
    probe = webhook(server, "probe", "/probe", namespaceSelector=only)
    named = "has(request.name) && request.name == 'probe'"
    probe["matchConditions"] = [{"name": "probe", "expression": named}]
    body = {"metadata": {"name": name}, "webhooks": [*webhooks, probe]}
    status, response = api.access.request("POST", path, body)
    assert status == 201, response
    before = len(server.requests("/probe"))

    def noticed() -> bool:
        configmap = {"metadata": {"name": "probe"}}
        api.access.request("POST", f"{configmaps(api)}?dryRun=All", configmap)
        return len(server.requests("/probe")) > before

    wait_until(noticed)
    server.asked.clear()
    try:
        yield
    finally:
        api.access.request("DELETE", f"{path}/{name}")


def configmaps(api: Api) -> str:
    return f"/api/v1/namespaces/{api.namespace}/configmaps"


def about(server: WebhookServer, path: str, *resources: str, **more: Any) -> Json:
    """A webhook for these resources of any group."""
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": list(resources),
    }
    return webhook(server, path.strip("/"), path, rules=[rule], **more)


def appending(letter: str) -> Callable[[Json], Answer]:
    """Appends a letter to the object's `word`; not twice in a row."""

    def act(request: Json) -> Answer:
        word = (request["object"].get("data") or {}).get("word", "")
        if word.endswith(letter):
            return review(request)
        return patched(request, {"op": "add", "path": "/data", "value": {"word": word + letter}})

    return act


def test_webhook_sees_the_changes_of_earlier_webhooks(api: Api, server: WebhookServer) -> None:
    server.behaviours |= {"/a": appending("a"), "/b": appending("b")}
    hooks = [about(server, "/b", "configmaps"), about(server, "/a", "configmaps")]
    with configured(api, server, "mutating", *hooks):
        _, made = api.access.request("POST", configmaps(api), {"metadata": {"name": "x"}})
    assert made["data"] == {"word": "ba"}
    owners = made["metadata"].get("managedFields") or []
    assert all("f:data" not in owner["fieldsV1"] for owner in owners)


def test_reinvocable_webhook_is_called_again_after_a_later_change(
    api: Api, server: WebhookServer
) -> None:
    server.behaviours |= {"/a": appending("a"), "/b": appending("b"), "/c": appending("c")}
    hooks = [
        about(server, "/a", "configmaps", reinvocationPolicy="IfNeeded"),
        about(server, "/b", "configmaps"),
        about(server, "/c", "configmaps", reinvocationPolicy="IfNeeded"),
    ]
    with configured(api, server, "mutating", *hooks):
        _, made = api.access.request("POST", configmaps(api), {"metadata": {"name": "x"}})
    # `a` is reinvoked because `b` and `c` changed the object after it, then `c` because `a` did.
    assert made["data"] == {"word": "abcac"}
    assert [path for path, _ in server.asked] == ["/a", "/b", "/c", "/a", "/c"]


def test_mutated_object_is_defaulted_pruned_and_validated(api: Api, server: WebhookServer) -> None:
    port = {"containerPort": 80}
    server.behaviours["/port"] = lambda request: patched(
        request,
        {"op": "add", "path": "/spec/containers/0/ports", "value": [port]},
        {"op": "add", "path": "/spec/containers/0/unknown", "value": 1},
    )
    pods = f"/api/v1/namespaces/{api.namespace}/pods"
    spec = {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}
    checked = about(server, "/ok", "pods")
    with (
        configured(api, server, "mutating", about(server, "/port", "pods")),
        configured(api, server, "validating", checked),
    ):
        body = {"metadata": {"name": "x"}, "spec": spec}
        _, made = api.access.request("POST", pods, body)
        (container,) = made["spec"]["containers"]
        assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        assert "unknown" not in container
        (request,) = server.requests("/ok")
        assert request["object"]["spec"]["containers"] == made["spec"]["containers"]
        port["containerPort"] = 99999
        status, rejection = api.access.request(
            "POST", pods, {"metadata": {"name": "y"}, "spec": spec}
        )
    assert status == 422
    assert "containerPort: Invalid value: 99999" in rejection["message"]
    assert len(server.requests("/ok")) == 1


def test_review_describes_the_request(api: Api, server: WebhookServer) -> None:
    hook = about(server, "/ok", "configmaps", "deployments", "deployments/scale")
    path, deployments = configmaps(api), f"/apis/apps/v1/namespaces/{api.namespace}/deployments"
    with configured(api, server, "validating", hook):
        _, made = api.access.request("POST", f"{path}?fieldManager=me", {"metadata": {"name": "x"}})
        changed = {**made, "data": {"a": "b"}}
        api.access.request("PUT", f"{path}/x?fieldValidation=Strict", changed)
        api.access.request("DELETE", f"{path}/x", {"gracePeriodSeconds": 3, "dryRun": ["All"]})
        api.access.request("POST", deployments, {"metadata": {"name": "d"}, "spec": DEPLOYMENT})
        scale = {"metadata": {"name": "d", "namespace": api.namespace}, "spec": {"replicas": 2}}
        api.access.request("PUT", f"{deployments}/d/scale", scale)
    created, updated, deleted, _, scaled = [request for _, request in server.asked]
    for request in (created, updated, deleted):
        assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert (request["name"], request["namespace"]) == ("x", api.namespace)
        assert "system:masters" in request["userInfo"]["groups"]
        assert "subResource" not in request
    assert created["operation"] == "CREATE"
    assert created["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert created["oldObject"] is None
    assert created["options"] == _options("CreateOptions", fieldManager="me")
    assert updated["operation"] == "UPDATE"
    assert updated["object"]["data"] == {"a": "b"}
    assert "data" not in updated["oldObject"]
    assert updated["options"] == _options("UpdateOptions", fieldValidation="Strict")
    assert deleted["operation"] == "DELETE"
    assert deleted["object"] is None
    assert deleted["oldObject"]["data"] == {"a": "b"}
    assert deleted["dryRun"] is True
    assert deleted["options"]["gracePeriodSeconds"] == 3
    assert scaled["subResource"] == scaled["requestSubResource"] == "scale"
    assert scaled["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert scaled["resource"]["resource"] == "deployments"
    assert scaled["object"]["spec"] == {"replicas": 2}
    assert scaled["oldObject"]["spec"] == {}


def _options(kind: str, **more: Any) -> Json:
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **more}


def test_name_is_generated_after_mutation(api: Api, server: WebhookServer) -> None:
    server.behaviours["/see"] = review
    with (
        configured(api, server, "mutating", about(server, "/see", "configmaps")),
        configured(api, server, "validating", about(server, "/ok", "configmaps")),
    ):
        _, made = api.access.request("POST", configmaps(api), {"metadata": {"generateName": "g-"}})
    (before,), (after,) = server.requests("/see"), server.requests("/ok")
    assert "name" not in before
    assert before["object"]["metadata"].keys().isdisjoint({"name", "uid", "creationTimestamp"})
    assert after["name"] == after["object"]["metadata"]["name"] == made["metadata"]["name"]


def test_scale_can_be_mutated(api: Api, server: WebhookServer) -> None:
    server.behaviours["/fewer"] = lambda request: patched(
        request, {"op": "replace", "path": "/spec/replicas", "value": 1}
    )
    path = f"/apis/apps/v1/namespaces/{api.namespace}/deployments"
    with configured(api, server, "mutating", about(server, "/fewer", "deployments/scale")):
        api.access.request("POST", path, {"metadata": {"name": "d"}, "spec": DEPLOYMENT})
        body = {"metadata": {"name": "d", "namespace": api.namespace}, "spec": {"replicas": 9}}
        _, scale = api.access.request("PUT", f"{path}/d/scale", body)
    assert scale["spec"] == {"replicas": 1}
    assert api.access.request("GET", f"{path}/d")[1]["spec"]["replicas"] == 1


def test_bindings_evictions_and_tokens_are_reviewed(api: Api, server: WebhookServer) -> None:
    pods = f"/api/v1/namespaces/{api.namespace}/pods"
    accounts = f"/api/v1/namespaces/{api.namespace}/serviceaccounts"
    spec = {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}
    parts = ("pods/binding", "pods/eviction", "serviceaccounts/token", "pods")
    hook = about(server, "/ok", *parts)
    api.access.request("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    api.access.request("POST", accounts, {"metadata": {"name": "s"}})
    with configured(api, server, "validating", hook):
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "nowhere"}}
        assert api.access.request("POST", f"{pods}/p/binding", target)[0] == 201
        assert (
            api.access.request("POST", f"{pods}/p/eviction", {"metadata": {"name": "p"}})[0] == 201
        )
        assert api.access.request("POST", f"{accounts}/s/token", {"spec": {}})[0] == 201
    kinds = [request["kind"]["kind"] for _, request in server.asked]
    # The deletion that follows from an eviction is not reviewed again.
    assert kinds == ["Binding", "Eviction", "TokenRequest"]
    assert {request["operation"] for _, request in server.asked} == {"CREATE"}


def test_warnings_reach_the_client(api: Api, server: WebhookServer, kubectl: Kubectl) -> None:
    server.behaviours["/warn"] = lambda request: review(request, warnings=["one", "two", "one"])
    with configured(api, server, "validating", about(server, "/warn", "configmaps")):
        made = kubectl("create configmap x", namespace=api.namespace)
        gone = kubectl("delete configmap x", namespace=api.namespace)
    for command in (made, gone):
        assert command.err.splitlines() == ["Warning: one", "Warning: two"]


def test_all_validating_webhooks_run_and_the_first_denial_is_reported(
    api: Api, server: WebhookServer
) -> None:
    for name in ("first", "second"):
        server.behaviours[f"/{name}"] = lambda request, name=name: review(
            request, allowed=False, status={"message": name}
        )
    hooks = [about(server, "/first", "configmaps"), about(server, "/second", "configmaps")]
    with configured(api, server, "validating", *hooks):
        status, response = api.access.request("POST", configmaps(api), {"metadata": {"name": "x"}})
    assert status == 400
    assert response["message"].endswith(("first", "second"))
    assert {path for path, _ in server.asked} == {"/first", "/second"}


def test_failing_webhook_is_ignored_by_failure_policy(api: Api, server: WebhookServer) -> None:
    closed = {"url": "https://127.0.0.1:1/x"}
    hook = about(server, "/ok", "configmaps", clientConfig=closed, failurePolicy="Ignore")
    failing = about(
        server,
        "/failing",
        "configmaps",
        failurePolicy="Ignore",
        matchConditions=[{"name": "a", "expression": "object.none.x == 1"}],
    )
    with configured(api, server, "validating", hook, failing):
        status, _ = api.access.request("POST", configmaps(api), {"metadata": {"name": "x"}})
    assert status == 201
    assert not server.asked


def test_object_is_sent_in_the_version_of_the_webhook(api: Api, server: WebhookServer) -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    server.behaviours["/old"] = lambda request: patched(
        request, {"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 77}
    )
    hook = webhook(server, "old", "/old", rules=[rule])
    path = f"/apis/autoscaling/v2/namespaces/{api.namespace}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": target,
        "metrics": [{"type": "Resource", "resource": cpu}],
    }
    with configured(api, server, "mutating", hook):
        status, made = api.access.request("POST", path, {"metadata": {"name": "h"}, "spec": spec})
    assert status == 201, made
    (request,) = server.requests("/old")
    assert request["object"]["apiVersion"] == "autoscaling/v1"
    assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
    assert request["kind"]["version"] == request["resource"]["version"] == "v1"
    assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v2"
    (metric,) = made["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 77


def test_configurations_of_admission_are_exempt(api: Api, server: WebhookServer) -> None:
    with configured(api, server, "validating", about(server, "/ok", "*/*")):
        hook = about(server, "/ok", "none")
        body = {"metadata": {"name": f"{api.namespace}-other"}, "webhooks": [hook]}
        path = f"{BASE}/mutatingwebhookconfigurations"
        assert api.access.request("POST", path, body)[0] == 201
        api.access.request("DELETE", f"{path}/{api.namespace}-other")
    assert not [
        request for _, request in server.asked if request["kind"]["group"].startswith("adm")
    ]
