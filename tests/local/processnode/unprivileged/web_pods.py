"""Objects that these tests apply, and kubectl as they use it."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.request import urlopen

from tests.harness.kubectl import Kubectl

SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["POD_NAME"].encode())
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print("listening", flush=True)
server.serve_forever()
"""
POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def server(port: int, host: str = "", **fields: Any) -> Any:
    """A container that answers with the name of its pod."""
    return {
        "name": "main",
        "image": "none",
        "command": [sys.executable, "-c", SERVER, host, str(port)],
        "env": [POD_NAME],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        **fields,
    }


def shell(script: str, **fields: Any) -> Any:
    """A container that runs a script."""
    return {"name": "main", "image": "none", "command": ["sh", "-c", script], **fields}


def pod(name: str, container: Any, **spec: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def deployment(container: Any, replicas: int, **spec: Any) -> Any:
    labels = {"app": "web"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def service(port: int, target: int, node_port: int) -> Any:
    """A load balancer. Clusters beside ours have other ports, since all are on one machine."""
    ports = [{"port": port, "targetPort": target, "nodePort": node_port}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": ports, "type": "LoadBalancer"},
    }


@dataclass(frozen=True)
class KubectlUser:
    """kubectl commands of a user."""

    kubectl: Kubectl

    def __call__(self, command: str | Sequence[str], stdin: str = "") -> str:
        """What a kubectl command prints; it must succeed."""
        done = self.kubectl(command, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def apply(self, *objects: Any) -> None:
        body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self("apply -f -", stdin=json.dumps(body))

    def get(self, what: str, path: str) -> str:
        """One field of an object."""
        return self(["get", *what.split(), "-o", f"jsonpath={{{path}}}"])

    def labels(self) -> dict[str, str]:
        """The labels of the node."""
        return json.loads(self.get("nodes", ".items[0].metadata.labels"))

    def waiting_reason(self, name: str) -> tuple[str, str]:
        """Why a pod's container waits: reason and message."""
        found = self.get(f"pod {name}", ".status.containerStatuses[0].state.waiting")
        output = json.loads(found) if found else {}
        return output.get("reason", ""), output.get("message", "")

    def events(self, name: str) -> dict[str, str]:
        """Messages about an object, by reason."""
        command = ["get", "events", "-o", "json", f"--field-selector=involvedObject.name={name}"]
        return {each["reason"]: each["message"] for each in json.loads(self(command))["items"]}

    @contextmanager
    def forwarded(self, what: str, port: int) -> Generator[str]:
        """The address at which a port of a pod or Service is forwarded."""
        command = [*self.kubectl.build_prefix(), "port-forward", what, f":{port}"]
        process = Popen(command, stdout=PIPE, env=self.kubectl.build_environment(), text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split(" -> ")[0].rpartition(" ")[2]
        finally:
            process.terminate()
            process.communicate()


def kubectl_user(kubectl: Path, data: Path, home: Path) -> KubectlUser:
    """kubectl of a cluster's administrator."""
    return KubectlUser(Kubectl(kubectl, data / "kubeconfig", home))


def read_page(place: str) -> str:
    """The body of a server's response."""
    with urlopen(f"http://{place}/", timeout=10) as reply:
        return reply.read().decode()
