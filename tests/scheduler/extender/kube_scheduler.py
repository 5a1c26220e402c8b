"""A genuine kube-scheduler that calls a running extender, on a test server."""

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

from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.scheduler.extender.configuration import extender_entry
from tests.clients.client_cluster import wait_until
from tests.clients.kube_components import write_impersonating_kubeconfig
from tests.harness.access import ServerAccess
from tests.harness.control_plane import MISSING_BINARIES_MESSAGE, find_binaries, is_healthy
from tests.harness.server_process import ServerProcess, find_free_port

MANIFESTS = Path(__file__).parents[3] / "deploy" / "extender"
SCHEDULER_NAME = "extended-scheduler"
DEVICES = "gpu.kilonova.dev/devices"

_SOURCE = Path(__file__).parents[3] / "src"
_numbers = count(1)


@dataclass
class ExtendedScheduler:
    """A server on which kube-scheduler calls the extender for pods with GPUs."""

    access: ServerAccess
    namespace: str
    folder: Path
    port: int
    https: bool
    extender: ServerProcess | None = None

    @property
    def urgent(self) -> str:
        """The PriorityClass of preemptors."""
        return f"urgent-{self.namespace}"

    def post(self, path: str, body: Any) -> Any:
        status, answer = self.access.request("POST", path, body)
        assert status in (200, 201), answer
        return answer

    def add_nodes(self, *gpus: int, **metadata: Any) -> list[str]:
        """Nodes with this many GPUs each, for pods that select them by `stage`."""
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
                "schedulerName": SCHEDULER_NAME,
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
        return self.access.request("GET", f"{self._pods()}/{name}")[1]

    def exists(self, name: str) -> bool:
        return self.access.request("GET", f"{self._pods()}/{name}")[0] == 200

    def wait_until_bound(self, name: str) -> tuple[str, str]:
        """The node of a pod, and its devices, once it is bound."""
        pod = wait_until(lambda: self.pod(name), lambda found: found["spec"].get("nodeName"))
        return pod["spec"]["nodeName"], pod["metadata"]["annotations"][DEVICES]

    def wait_until_unschedulable(self, name: str, text: str) -> None:
        """Wait for a FailedScheduling event of a pod with this message."""
        query = f"?fieldSelector=involvedObject.name={name}"
        path = f"/api/v1/namespaces/{self.namespace}/events{query}"

        def messages_of_events() -> list[str]:
            found = self.access.request("GET", path)[1]["items"]
            return [each["message"] for each in found if each["reason"] == "FailedScheduling"]

        wait_until(
            messages_of_events, lambda messages: any(text in message for message in messages)
        )

    def explain(self, name: str) -> Any:
        """The extender's explanation of a pod, once its cache has the pod."""
        url = f"{self.url}/explain?pod={self.namespace}/{name}"
        tls = self.client_tls() if self.https else None

        def explanation() -> Any:
            try:
                with urllib.request.urlopen(url, timeout=10, context=tls) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return None

        return wait_until(explanation, bool)

    @property
    def url(self) -> str:
        return f"{'https' if self.https else 'http'}://127.0.0.1:{self.port}"

    def client_tls(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        """TLS options: the CA of the extender and a client certificate."""
        context = ssl.create_default_context(cafile=self.folder / "certificates" / "ca.crt")
        if with_certificate:
            context.load_cert_chain(self.folder / "client.crt", self.folder / "client.key")
        return context

    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    # The extender.

    def start_extender(self) -> None:
        """The client with the service account of the manifests."""
        user = f"system:serviceaccount:{self.namespace}:kilonova-extender"
        kubeconfig = write_impersonating_kubeconfig(
            user, self.access, self.folder / "extender.kubeconfig"
        )
        health = find_free_port()
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
        """Certificates, and the service account with its RBAC, in a namespace of its own."""
        now = datetime.now(UTC)
        authority = CertificateAuthority.create("clients of a test", now)
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

    def clean_up(self) -> None:
        """Delete everything, for other tests."""
        for kind in ("clusterrolebindings", "clusterroles"):
            path = f"/apis/rbac.authorization.k8s.io/v1/{kind}/kilonova-extender"
            self.access.request("DELETE", path)
        kinds = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.access.request("DELETE", f"{kinds}/{self.urgent}")
        for node in self.access.request("GET", "/api/v1/nodes")[1]["items"]:
            if "stage" in node["metadata"].get("labels", {}):
                self.access.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        self.access.request("DELETE", f"/api/v1/namespaces/{self.namespace}")


@contextmanager
def run_extended_scheduler(
    access: ServerAccess, folder: Path, *, https: bool
) -> Generator[ExtendedScheduler]:
    """Run kube-scheduler and the extender."""
    commands = find_binaries()
    assert commands is not None, MISSING_BINARIES_MESSAGE
    scenario = ExtendedScheduler(
        access, f"extended-{next(_numbers)}", folder, find_free_port(), https
    )
    scenario.prepare()
    scheduler: ServerProcess | None = None
    try:
        scenario.start_extender()
        tls = None
        if https:
            tls = {"caFile": str(folder / "certificates" / "ca.crt")}
            tls |= {f"{each}File": str(folder / f"client.{end}") for each, end in _CLIENT}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(access.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": SCHEDULER_NAME}],
            "extenders": [extender_entry(scenario.url, tls)],
        }
        file = folder / "scheduler.json"
        file.write_text(json.dumps(config))
        port = find_free_port()
        own = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}"]
        command = [commands / "kube-scheduler", f"--config={file}", *own]
        scheduler = ServerProcess("kube-scheduler", command, folder / "kube-scheduler.log")
        scheduler.wait_until(lambda: is_healthy(port))
        yield scenario
    finally:
        if scheduler is not None:
            scheduler.stop()
        scenario.stop_extender()
        scenario.clean_up()


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
