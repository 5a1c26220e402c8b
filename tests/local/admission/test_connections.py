"""Connections to pods are asked about before they are made."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube.transport import Query
from kilonova.local.admission.connecting import connect_options, connect_query
from kilonova.local.catalog import Catalog
from kilonova.local.kinds.builtin import builtin_kinds
from kilonova.local.routes import Target
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.admission.webhook_server import review, serving, until, webhook

PODS = Catalog(builtin_kinds()).find("", "v1", "pods")


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
def test_a_query_is_an_object(part: str, query: Query, options: Any) -> None:
    assert PODS is not None
    read = connect_options(Target(PODS, "default", "p", part), query)
    assert read == {"apiVersion": "v1", **options}
    again = connect_options(Target(PODS, "default", "p", part), connect_query(read, query))
    assert again == read


def test_an_exec_can_be_refused(api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    pods = f"/api/v1/namespaces/{api.namespace}/pods"
    spec = {
        "nodeName": "nowhere",
        "containers": [{"name": "c", "image": "i"}],
        "serviceAccountName": "default",
    }

    def made() -> bool:
        return api.access.ask("POST", pods, {"metadata": {"name": "p"}, "spec": spec})[0] == 201

    until(made)
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
    with serving(tmp_path / "tls", refusing) as server:
        only = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
        hook = webhook(server, "x", "/no", rules=[rule], namespaceSelector=only)
        body = {"metadata": {"name": api.namespace}, "webhooks": [hook]}
        api.access.ask("POST", base, body)
        try:
            until(lambda: "stay out" in kubectl("exec p -- ls -l", namespace=api.namespace).err)
        finally:
            api.access.ask("DELETE", f"{base}/{api.namespace}")
        _, request = server.asked[-1]
    assert request["operation"] == "CONNECT"
    assert request["kind"]["kind"] == request["object"]["kind"] == "PodExecOptions"
    assert request["object"]["command"] == ["ls", "-l"]
    assert (request["name"], request["subResource"]) == ("p", "exec")
    assert request["oldObject"] is None
    assert request["options"] is None
