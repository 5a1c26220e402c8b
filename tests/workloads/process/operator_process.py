"""`kilonova run operator` as a process of its own, for a test."""

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

from kilonova.workloads.admission import NAME
from tests.harness.access import Access
from tests.harness.process import ServerProcess

_SOURCE = Path(__file__).parents[3] / "src"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/" + NAME


@dataclass(frozen=True)
class OperatorProcess:
    """A running one."""

    process: ServerProcess

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        return [json.loads(each) for each in self.process.log.read_text().splitlines()]

    def ask(self, path: str) -> tuple[int, str]:
        """What it answers on its port for health and metrics."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port("health"), timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether it says so itself."""
        try:
            return self.ask("/readyz")[0] == 200
        except (OSError, StopIteration):
            return False

    def _port(self, server: str) -> int:
        lines = self.lines()
        return next(each["port"] for each in lines if each.get("server") == server)


@contextmanager
def operator_process(
    kubeconfig: Path, folder: Path, *options: str, name: str = "operator"
) -> Generator[OperatorProcess]:
    """One that is ready, until the end of the context."""
    with part_process("operator", kubeconfig, folder, *options, name=name) as running:
        yield running


@contextmanager
def part_process(
    part: str, kubeconfig: Path, folder: Path, *options: str, name: str = ""
) -> Generator[OperatorProcess]:
    """Any part of Kilonova that says on a port whether it is ready."""
    name = name or part
    command = [sys.executable, "-P", "-m", "kilonova.cli", "run", part]
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


def forget_webhooks(access: Access) -> None:
    """Let sets be stored without an operator again."""
    for kind in ("mutating", "validating"):
        access.ask("DELETE", _WEBHOOKS.format(kind))


def token_kubeconfig(access: Access, file: Path, token: str) -> Path:
    """A kubeconfig for whoever has a token."""
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
