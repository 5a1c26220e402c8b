"""A genuine kube-scheduler that asks a running extender, on a server of a test."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from kilonova.kube.certificates import Authority
from kilonova.scheduler.extender.configuration import extender_entry
from tests.clients.genuine import acting_as
from tests.clients.ground import until
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, binaries, is_healthy
from tests.harness.process import ServerProcess, free_port

MANIFESTS = Path(__file__).parents[3] / "deploy" / "extender"
SCHEDULER = "asks-the-extender"
DEVICES = "gpu.kilonova.dev/devices"

_SOURCE = Path(__file__).parents[3] / "src"
_numbers = count(1)


@dataclass
class Extended:
    """A server on which kube-scheduler asks the extender about pods with GPUs."""

    access: Access
    namespace: str
    folder: Path
    port: int
    https: bool
    extender: ServerProcess | None = None

    @property
    def urgent(self) -> str:
        """The class of pods that push others out."""
        return f"urgent-{self.namespace}"

    def post(self, path: str, body: Any) -> Any:
        status, answer = self.access.ask("POST", path, body)
        assert status in (200, 201), answer
        return answer

    def add_nodes(self, *gpus: int, **metadata: Any) -> list[str]:
        """Nodes with so many GPUs each; only pods that select them by `stage` come there."""
        stage = f"stage-{next(_numbers)}"
        names = [f"{stage}-{number}" for number in range(len(gpus))]
        for name, number in zip(names, gpus, strict=True):
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            capacity["nvidia.com/gpu"] = str(number)
            node = {
                "metadata": {"name": name, "labels": {"stage": stage}, **metadata},
                "status": {"capacity": capacity, "allocatable": capacity},
            }
            self.post("/api/v1/nodes", node)
        return names

    def add_pod(
        self,
        name: str,
        nodes: list[str],
        gpus: int = 1,
        resource: str = "nvidia.com/gpu",
        annotations: dict[str, str] | None = None,
        urgent: bool = False,
        **spec: Any,
    ) -> None:
        """A pod for these nodes."""
        if urgent:
            spec["priorityClassName"] = self.urgent
        resources = {"limits": {resource: str(gpus)}}
        container = {"name": "main", "image": "example", "resources": resources}
        pod = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "schedulerName": SCHEDULER,
                "nodeSelector": {"stage": nodes[0].rpartition("-")[0]},
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }
        self.post(self._pods(), pod)

    def add_gang(self, name: str, pods: list[str]) -> None:
        """A PodGang that needs all of its pods."""
        references = [{"namespace": self.namespace, "name": each} for each in pods]
        group = {"name": "all", "minReplicas": len(pods), "podReferences": references}
        gang = {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": name},
            "spec": {"podgroups": [group]},
        }
        gangs = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{self.namespace}/podgangs"
        self.post(gangs, gang)

    def pod(self, name: str) -> Any:
        return self.access.ask("GET", f"{self._pods()}/{name}")[1]

    def exists(self, name: str) -> bool:
        return self.access.ask("GET", f"{self._pods()}/{name}")[0] == 200

    def until_bound(self, name: str) -> tuple[str, str]:
        """Where a pod ends up, and the devices it was given there."""
        pod = until(lambda: self.pod(name), lambda found: found["spec"].get("nodeName"))
        return pod["spec"]["nodeName"], pod["metadata"]["annotations"][DEVICES]

    def until_refused(self, name: str, text: str) -> None:
        """Waits until kube-scheduler's event about a pod says why it has no place."""
        query = f"?fieldSelector=involvedObject.name={name}"
        path = f"/api/v1/namespaces/{self.namespace}/events{query}"

        def said() -> list[str]:
            found = self.access.ask("GET", path)[1]["items"]
            return [each["message"] for each in found if each["reason"] == "FailedScheduling"]

        until(said, lambda messages: any(text in message for message in messages))

    def explain(self, name: str) -> Any:
        """What the extender says about a pod, once it knows of it."""
        url = f"{self.url}/explain?pod={self.namespace}/{name}"
        tls = self.client_tls() if self.https else None

        def said() -> Any:
            try:
                with urllib.request.urlopen(url, timeout=10, context=tls) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return None

        return until(said, bool)

    @property
    def url(self) -> str:
        return f"{'https' if self.https else 'http'}://127.0.0.1:{self.port}"

    def client_tls(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        """Trusts the extender's authority, and shows who one is."""
        context = ssl.create_default_context(cafile=self.folder / "certificates" / "ca.crt")
        if with_certificate:
            context.load_cert_chain(self.folder / "client.crt", self.folder / "client.key")
        return context

    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    # The extender.

    def start_extender(self) -> None:
        """As the account that the manifests give it."""
        user = f"system:serviceaccount:{self.namespace}:kilonova-extender"
        kubeconfig = acting_as(user, self.access, self.folder / "extender.kubeconfig")
        health = free_port()
        command = [sys.executable, "-P", "-m", "kilonova.cli", "run", "extender"]
        command += ["--kubeconfig", str(kubeconfig), "--namespace", self.namespace]
        command += ["--port", str(self.port), "--health-port", str(health), "--log-format", "json"]
        if self.https:
            command += ["--tls-dir", str(self.folder / "certificates")]
            command += ["--tls-client-ca", str(self.folder / "clients.crt")]
        path = os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        log = self.folder / "extender.log"
        self.extender = ServerProcess("extender", command, log, environment)
        self.extender.wait_until(lambda: _is_ready(health))

    def stop_extender(self) -> None:
        if self.extender is not None:
            self.extender.stop(grace=20)

    def prepare(self) -> None:
        """Certificates, and the account with its rights, in a namespace of its own."""
        now = datetime.now(UTC)
        authority = Authority.create("clients of a test", now)
        (self.folder / "clients.crt").write_bytes(authority.cert_pem)
        client = authority.issue_client("kube-scheduler", [], now)
        client.write(self.folder / "client.crt", self.folder / "client.key")
        self.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        kinds = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.post(kinds, {"metadata": {"name": self.urgent}, "value": 1000})
        for file in ("account.yaml", "clusterrole.yaml", "role.yaml"):
            text = (MANIFESTS / file).read_text().replace("kilonova-system", self.namespace)
            for each in yaml.safe_load_all(text):
                self.post(_path(each), each)

    def tidy(self) -> None:
        """Leaves the server as it was, for other tests."""
        for kind in ("clusterrolebindings", "clusterroles"):
            path = f"/apis/rbac.authorization.k8s.io/v1/{kind}/kilonova-extender"
            self.access.ask("DELETE", path)
        kinds = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.access.ask("DELETE", f"{kinds}/{self.urgent}")
        for node in self.access.ask("GET", "/api/v1/nodes")[1]["items"]:
            if "stage" in node["metadata"].get("labels", {}):
                self.access.ask("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        self.access.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")


@contextmanager
def extended(access: Access, folder: Path, *, https: bool) -> Generator[Extended]:
    """kube-scheduler and the extender, until the end of the context."""
    commands = binaries()
    assert commands is not None, HOW_TO_GET
    scene = Extended(access, f"extended-{next(_numbers)}", folder, free_port(), https)
    scene.prepare()
    scheduler: ServerProcess | None = None
    try:
        scene.start_extender()
        tls = None
        if https:
            tls = {"caFile": str(folder / "certificates" / "ca.crt")}
            tls |= {f"{each}File": str(folder / f"client.{end}") for each, end in _CLIENT}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(access.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": SCHEDULER}],
            "extenders": [extender_entry(scene.url, tls)],
        }
        file = folder / "scheduler.json"
        file.write_text(json.dumps(config))
        port = free_port()
        own = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}"]
        command = [commands / "kube-scheduler", f"--config={file}", *own]
        scheduler = ServerProcess("kube-scheduler", command, folder / "kube-scheduler.log")
        scheduler.wait_until(lambda: is_healthy(port))
        yield scene
    finally:
        if scheduler is not None:
            scheduler.stop()
        scene.stop_extender()
        scene.tidy()


_CLIENT = (("cert", "crt"), ("key", "key"))


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def _path(manifest: Any) -> str:
    version = manifest["apiVersion"]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    namespace = manifest["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{inside}/{manifest['kind'].lower()}s"
