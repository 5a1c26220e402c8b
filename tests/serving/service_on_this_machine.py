"""Services in a cluster of `kilonova up`: real gateways and servers, as processes of this
machine."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.cli.command import Kilonova
from tests.harness.access import ServerAccess

NAMESPACE = "/api/v1/namespaces/default"
SERVICES = "/apis/serving.kilonova.dev/v1alpha1/namespaces/default/inferenceservices"
TIMEOUT_SECONDS = 90.0


@dataclass(frozen=True)
class ServingMachine:
    """A cluster of `kilonova up` with a process node."""

    kilonova: Kilonova
    data: Path
    options: tuple[str, ...] = ()

    @property
    def access(self) -> ServerAccess:
        """Its API."""
        return ServerAccess.from_kubeconfig(self.data / "kubeconfig", self.kilonova.home / "admin")

    def start(self) -> None:
        """Start it, in the background."""
        done = self.kilonova.detach(self.data, "--no-demo", "--process-node", *self.options)
        assert done.code == 0, done.err

    def create(self, body: Any) -> None:
        """Create a service."""
        head = {"apiVersion": "serving.kilonova.dev/v1alpha1", "kind": "InferenceService"}
        code, answer = self.access.request("POST", SERVICES, {**head, **body})
        assert code == 201, answer

    def update(self, name: str, **fields: Any) -> None:
        """Replace fields of the spec of a service."""

        def is_written() -> bool:
            path = f"{SERVICES}/{name}"
            _, found = self.access.request("GET", path)
            found["spec"] |= fields
            # Another one may have written its status meanwhile.
            return self.access.request("PUT", path, found)[0] == 200

        wait_until(is_written)

    def delete(self, name: str) -> None:
        """Delete a service, and wait until none of its pods is left."""
        self.access.request("DELETE", f"{SERVICES}/{name}")
        wait_until(lambda: not self.list_pods(name))

    def get_status(self, name: str) -> Any:
        """The status of a service."""
        code, found = self.access.request("GET", f"{SERVICES}/{name}")
        assert code == 200, found
        return found.get("status", {})

    def list_pods(self, name: str, role: str = "") -> list[Any]:
        """The pods of a service, of a role."""
        labels = {"serving.kilonova.dev/inference-service": name}
        labels |= {"serving.kilonova.dev/role": role} if role else {}
        code, found = self.access.request("GET", f"{NAMESPACE}/pods")
        assert code == 200, found
        return [
            each
            for each in found["items"]
            if labels.items() <= each["metadata"].get("labels", {}).items()
        ]

    def wait_for(self, name: str, condition: Callable[[Any], Any]) -> Any:
        """Wait until a condition holds for a service's status; returns the status."""
        status: Any = {}

        def holds() -> bool:
            nonlocal status
            status = self.get_status(name)
            return bool(condition(status))

        wait_until(holds, lambda: f"status of {name}: {status}")
        return status


@contextmanager
def serving_machine(folder: Path, *options: str) -> Generator[ServingMachine]:
    """A running one, until the end of the context."""
    kilonova = Kilonova(folder)
    machine = ServingMachine(kilonova, folder / "data", options)
    try:
        machine.start()
        yield machine
    finally:
        kilonova.stop_all()


def request(url: str, body: Any = None, timeout: float = 30.0) -> tuple[int, Any]:
    """Status and JSON of an answer; 0 if nothing listens."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    wanted = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(wanted, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return 0, None


def list_listeners(url: str) -> list[psutil.Process]:
    """The processes that listen at the address of a URL."""
    host, _, port = url.rpartition("/")[2].partition(":")
    return [
        psutil.Process(each.pid)
        for each in psutil.net_connections("tcp4")
        if each.status == psutil.CONN_LISTEN and each.laddr == (host, int(port)) and each.pid
    ]


def wait_until(is_so: Callable[[], bool], explain: Callable[[], str] = lambda: "") -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_SECONDS:.0f} s: {explain()}"
        time.sleep(0.1)
