"""An embedded cluster with kubectl, for tests of real clients."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl, find_kubectl

TIMEOUT_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class ClientCluster:
    """A running embedded cluster, accessed through kubectl."""

    server: EmbeddedServer
    kubectl: Kubectl

    @classmethod
    def from_server(cls, server: EmbeddedServer, home: Path) -> "ClientCluster":
        """kubectl for that server, with its home in a directory."""
        binary = find_kubectl()
        assert binary is not None, "fixtures that provide a ClientCluster skip without kubectl"
        return cls(server, Kubectl(binary, server.access.kubeconfig, home))

    @property
    def access(self) -> ServerAccess:
        return self.server.access

    def run_kubectl(
        self, command: str | Sequence[str], stdin: str = "", namespace: str = ""
    ) -> str:
        """The output of a command that must succeed."""
        outcome = self.kubectl(command, stdin=stdin, namespace=namespace, timeout=TIMEOUT_SECONDS)
        assert outcome.code == 0, f"{command}: {outcome.err}"
        return outcome.out

    def get_json(self, what: str, namespace: str = "") -> Any:
        """An object, or a list of them."""
        return json.loads(self.run_kubectl(f"get {what} -o json", namespace=namespace))

    def list_names(self, what: str, namespace: str = "") -> list[str]:
        """The names of all objects that `kubectl get` finds."""
        command = f"get {what} -o jsonpath={{.items[*].metadata.name}}"
        return self.run_kubectl(command, namespace=namespace).split()

    def create_namespace(self, name: str) -> str:
        """A new namespace, with its default service account."""
        self.run_kubectl(f"create namespace {name}")
        self.run_kubectl("wait --for=create serviceaccount/default --timeout=30s", namespace=name)
        return name


def wait_until(
    read: Callable[[], T], condition: Callable[[T], object], timeout: float = TIMEOUT_SECONDS
) -> T:
    """The value that is read, once a condition holds for it."""
    deadline = time.monotonic() + timeout
    while not condition(found := read()):
        assert time.monotonic() < deadline, f"still, after {timeout:.0f} s: {found}"
        time.sleep(0.05)
    return found
