"""What real clients stand on in these tests: an embedded cluster, kubectl on it, and patience."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.harness.access import Access
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl, kubectl_binary

PATIENCE = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class Ground:
    """A running embedded cluster in the eyes of a person with kubectl."""

    server: EmbeddedServer
    kubectl: Kubectl

    @classmethod
    def on(cls, server: EmbeddedServer, home: Path) -> "Ground":
        """kubectl for that server, at home in a folder."""
        binary = kubectl_binary()
        assert binary is not None, "fixtures that give a Ground skip without kubectl"
        return cls(server, Kubectl(binary, server.access.kubeconfig, home))

    @property
    def access(self) -> Access:
        return self.server.access

    def run(self, command: str | Sequence[str], stdin: str = "", namespace: str = "") -> str:
        """What a command that must succeed prints."""
        outcome = self.kubectl(command, stdin=stdin, namespace=namespace, timeout=PATIENCE)
        assert outcome.code == 0, f"{command}: {outcome.err}"
        return outcome.out

    def read(self, what: str, namespace: str = "") -> Any:
        """An object, or a list of them."""
        return json.loads(self.run(f"get {what} -o json", namespace=namespace))

    def names(self, what: str, namespace: str = "") -> list[str]:
        """The names of all objects that `kubectl get` finds."""
        command = f"get {what} -o jsonpath={{.items[*].metadata.name}}"
        return self.run(command, namespace=namespace).split()

    def namespace(self, name: str) -> str:
        """A new namespace, with its default account."""
        self.run(f"create namespace {name}")
        self.run("wait --for=create serviceaccount/default --timeout=30s", namespace=name)
        return name


def until(read: Callable[[], T], holds: Callable[[T], object], within: float = PATIENCE) -> T:
    """What is read, once something holds of it."""
    deadline = time.monotonic() + within
    while not holds(found := read()):
        assert time.monotonic() < deadline, f"still, after {within:.0f} s: {found}"
        time.sleep(0.05)
    return found
