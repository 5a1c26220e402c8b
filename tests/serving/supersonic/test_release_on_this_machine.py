"""A release in the namespaced mode on `kilonova up`: controllers, gateway and server are processes
of this machine, each with the user that its manifest names."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.serving.service_on_this_machine import NAMESPACE, serving_machine, wait_until
from tests.serving.supersonic.helm_chart import CHART, RELEASE, run_helm

STATUS = "serving.kilonova.dev/status"
RESOURCES = {"requests": {"cpu": "50m", "memory": "64M"}, "limits": {"cpu": 2, "memory": "1G"}}
VALUES = {
    "kilonova": {"image": "kilonova"},
    "triton": {
        "image": "kilonova",
        "args": ["exec kilonova serve-model"],
        "resources": RESOURCES,
    },
    "envoy": {"resources": RESOURCES},
}
CLIENT = {
    "name": "client",
    "image": "curlimages/curl",
    "args": ["-sfo", "/dev/null", "-w", "%{http_code}", f"http://{RELEASE}:8000/v2/models/add"],
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
def test_release_in_the_namespaced_mode_serves(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(VALUES))
    with serving_machine(tmp_path) as machine:
        access = machine.access

        def read_status() -> Any:
            _, found = access.request("GET", f"{NAMESPACE}/configmaps/{RELEASE}")
            return json.loads(found["metadata"].get("annotations", {}).get(STATUS, "{}"))

        def read_client() -> Any:
            return access.request("GET", f"{NAMESPACE}/pods/client")[1]["status"]

        kubeconfig = machine.data / "kubeconfig"
        words = ("install", RELEASE, str(CHART), "--values", str(values), "--namespace", "default")
        run_helm(tmp_path, *words, kubeconfig=kubeconfig)
        wait_until(lambda: read_status().get("phase") == "Ready", lambda: str(read_status()))
        spec = {"containers": [CLIENT], "restartPolicy": "Never"}
        code, answer = access.request(
            "POST", f"{NAMESPACE}/pods", {"metadata": {"name": "client"}, "spec": spec}
        )
        assert code == 201, answer
        wait_until(lambda: read_client().get("phase") == "Succeeded", lambda: str(read_client()))
