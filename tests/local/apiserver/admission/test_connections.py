"""Admission of connections to pods."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube.client.transport import Query
from kilonova.local.apiserver.admission.connect_options import (
    apply_connect_options,
    connect_options,
)
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.served_kinds import ServedKinds
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.apiserver.admission.webhooks.webhook_server import (
    review,
    serve_webhooks,
    wait_until,
    webhook,
)

PODS = ServedKinds(builtin_kinds()).find("", "v1", "pods")


@pytest.mark.parametrize(
    ("part", "query", "options"),
    [
        (
            "exec",
            [("container", "c"), ("command", "ls"), ("command", "-l"), ("stdout", "true")],
            {"kind": "PodExecOptions", "container": "c", "command": ["ls", "-l"], "stdout": True},
        ),
        ("attach", [("stdin", "1"), ("tty", "false")], {"kind": "PodAttachOptions", "stdin": True}),
        (
            "portforward",
            [("ports", "80,443")],
            {"kind": "PodPortForwardOptions", "ports": [80, 443]},
        ),
        ("portforward", [], {"kind": "PodPortForwardOptions"}),
        ("proxy", [("path", "/x")], {"kind": "PodProxyOptions", "path": "/x"}),
    ],
)
def test_connect_query_becomes_an_options_object(part: str, query: Query, options: Any) -> None:
    assert PODS is not None
    read = connect_options(ResourceTarget(PODS, "default", "p", part), query)
    assert read == {"apiVersion": "v1", **options}
    again = connect_options(
        ResourceTarget(PODS, "default", "p", part), apply_connect_options(read, query)
    )
    assert again == read


def test_exec_can_be_rejected(api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    pods = f"/api/v1/namespaces/{api.namespace}/pods"
    spec = {
        "nodeName": "nowhere",
        "containers": [{"name": "c", "image": "i"}],
        "serviceAccountName": "default",
    }

    def made() -> bool:
        return api.access.request("POST", pods, {"metadata": {"name": "p"}, "spec": spec})[0] == 201

    wait_until(made)
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CONNECT"],
        "resources": ["pods/exec"],
    }
    refusing = {
        "/no": lambda request: review(request, allowed=False, status={"message": "stay out"})
    }
    base = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    with serve_webhooks(tmp_path / "tls", refusing) as server:
        only = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
        hook = webhook(server, "x", "/no", rules=[rule], namespaceSelector=only)
        body = {"metadata": {"name": api.namespace}, "webhooks": [hook]}
        api.access.request("POST", base, body)
        try:
            wait_until(
                lambda: "stay out" in kubectl("exec p -- ls -l", namespace=api.namespace).err
            )
        finally:
            api.access.request("DELETE", f"{base}/{api.namespace}")
        _, request = server.asked[-1]
    assert request["operation"] == "CONNECT"
    assert request["kind"]["kind"] == request["object"]["kind"] == "PodExecOptions"
    assert request["object"]["command"] == ["ls", "-l"]
    assert (request["name"], request["subResource"]) == ("p", "exec")
    assert request["oldObject"] is None
    assert request["options"] is None
