"""`kilonova run operator` as a separate process, for tests."""

import http.client
import json
import os
import sys
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilonova.fleet.admission import CONFIGURATION_NAME as FLEET_CONFIGURATION_NAME
from kilonova.gpu.admission import CONFIGURATION_NAME as GPU_CONFIGURATION_NAME
from kilonova.instances.admission import CONFIGURATION_NAME as INSTANCES_CONFIGURATION_NAME
from kilonova.serving.admission import CONFIGURATION_NAME as SERVING_CONFIGURATION_NAME
from kilonova.workloads.admission import CONFIGURATION_NAME
from tests.harness.access import ServerAccess
from tests.harness.server_process import ServerProcess

_SOURCE = Path(__file__).parents[3] / "src"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/{}"
_CONFIGURATIONS = (
    CONFIGURATION_NAME,
    GPU_CONFIGURATION_NAME,
    INSTANCES_CONFIGURATION_NAME,
    FLEET_CONFIGURATION_NAME,
    SERVING_CONFIGURATION_NAME,
)


@dataclass(frozen=True)
class OperatorProcess:
    """A running one."""

    process: ServerProcess

    def read_log(self) -> list[dict[str, Any]]:
        """What it has logged; a line that is being written is left out."""
        text = self.process.log.read_text()
        return [json.loads(each) for each in text[: text.rfind("\n") + 1].splitlines()]

    def request(self, path: str) -> tuple[int, str]:
        """The response of its health and metrics port."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port("health"), timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether `/readyz` succeeds."""
        try:
            return self.request("/readyz")[0] == 200
        except (OSError, StopIteration):
            return False

    def _port(self, server: str) -> int:
        lines = self.read_log()
        return next(each["port"] for each in lines if each.get("server") == server)


@contextmanager
def operator_process(
    kubeconfig: Path, folder: Path, *options: str, name: str = "operator"
) -> Generator[OperatorProcess]:
    """A ready operator, until the end of the context."""
    with component_process("operator", kubeconfig, folder, *options, name=name) as running:
        yield running


@contextmanager
def component_process(
    component: str, kubeconfig: Path, folder: Path, *options: str, name: str = ""
) -> Generator[OperatorProcess]:
    """Any component with a health port."""
    name = name or component
    command = [sys.executable, "-P", "-m", "kilonova.cli", "run", component]
    command += ["--kubeconfig", str(kubeconfig), "--health-port", "0", "--log-format", "json"]
    path = os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    process = ServerProcess(name, [*command, *options], folder / f"{name}.log", environment)
    running = OperatorProcess(process)
    try:
        process.wait_until(running.is_ready)
        yield running
    finally:
        process.stop(grace=20)


def delete_webhook_configurations(access: ServerAccess) -> None:
    """Let objects of all components be stored without an operator again."""
    for kind in ("mutating", "validating"):
        for name in _CONFIGURATIONS:
            access.request("DELETE", _WEBHOOKS.format(kind, name))


def write_token_kubeconfig(access: ServerAccess, file: Path, token: str) -> Path:
    """A kubeconfig with a bearer token."""
    authority = b64encode(access.ca_file.read_bytes()).decode()
    cluster = {"server": access.url, "certificate-authority-data": authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(config))
    return file
