"""A program with client-go: its informers stay consistent with the embedded API."""

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from tests.clients.client_cluster import TIMEOUT_SECONDS, ClientCluster, wait_until
from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import find_free_port

pytestmark = pytest.mark.timeout(900)  # The first test builds the program, which can take minutes.

_SOURCE = Path(__file__).parent / "informer"
_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
_WIDGETS = "example.com/v1/widgets"


@pytest.fixture(scope="session")
def program(
    go_command: str, control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The program, built once; most packages are already built with the control plane."""
    binary = tmp_path_factory.mktemp("informer") / "informer"
    subprocess.run(
        [go_command, "build", "-trimpath", "-o", binary, "."],
        cwd=_SOURCE,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
        check=True,
        timeout=600,
    )
    return binary


class InformerProgram:
    """The output of a running program, line by line; it ends when its input is closed."""

    def __init__(self, program: Path, access: ServerAccess, *words: str) -> None:
        command = [program, access.kubeconfig, *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: list[Any] = []
        self._output: Queue[Any] = Queue()
        Thread(target=self._read_output, daemon=True).start()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))
            self._output.put(self.lines[-1])

    def wait_for_line(self, **wanted: Any) -> list[Any]:
        """All lines up to the first one with those fields."""
        said: list[Any] = []
        while not said or any(said[-1].get(key) != value for key, value in wanted.items()):
            said.append(self._output.get(timeout=TIMEOUT_SECONDS))
        return said

    def read_caches(self) -> Any:
        """The contents of the informers: per resource, the resourceVersion of each object by
        name.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        return self.wait_for_line(event="caches")[-1]["caches"]

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()


@contextmanager
def running_program(program: Path, access: ServerAccess, *words: str) -> Generator[InformerProgram]:
    lines = InformerProgram(program, access, *words)
    try:
        yield lines
    finally:
        lines.stop()


@pytest.fixture(scope="module")
def widgets(client_cluster: ClientCluster) -> ClientCluster:
    _create_definition(client_cluster)
    return client_cluster


def test_informers_observe_typed_and_custom_objects(widgets: ClientCluster, program: Path) -> None:
    namespace = widgets.create_namespace("heard")
    with running_program(program, widgets.access, "watch", namespace, _WIDGETS) as informer:
        for _ in range(3):
            informer.wait_for_line(event="synced")
        _write_widget(widgets, namespace, 1)
        assert informer.wait_for_line(event="added", resource="widgets")[-1]["name"] == "a"
        _write_widget(widgets, namespace, 2)
        informer.wait_for_line(event="changed", resource="widgets", name="a")
        widgets.run_kubectl("delete widget a", namespace=namespace)
        informer.wait_for_line(event="deleted", resource="widgets", name="a")
        pod = "run p --image=registry.example.com/p"
        widgets.run_kubectl(pod, namespace=namespace)
        widgets.run_kubectl("wait --for=condition=Ready pod/p --timeout=30s", namespace=namespace)
        informer.wait_for_line(event="changed", resource="pods", name="p")
        assert wait_until(
            informer.read_caches, lambda found: found == _list_stored(widgets, namespace)
        )


def test_a_typed_clientset_writes_with_every_verb(widgets: ClientCluster, program: Path) -> None:
    namespace = widgets.create_namespace("typed")
    command = [program, widgets.access.kubeconfig, "write", namespace]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(step["event"], step.get("labels")) for step in steps] == [
        ("created", {"step": "create"}),
        ("updated", {"step": "update"}),
        ("told", {"step": "update"}),
        ("patched", {"step": "strat"}),
        ("patched", {"step": "merge"}),
        ("applied", {"step": "merge", "applied": "yes"}),
        ("deleted", None),
    ]
    assert steps[0]["name"].startswith("typed-")
    assert (steps[0]["phase"], steps[0]["policy"]) == ("Pending", "Always")
    assert steps[2]["message"] == "told by its kubelet"
    assert steps[-1]["left"] == 0


def test_a_cache_equals_the_list_after_a_thousand_objects(
    widgets: ClientCluster, program: Path
) -> None:
    namespace = widgets.create_namespace("churned")
    with running_program(program, widgets.access, "watch", namespace, _WIDGETS) as informer:
        informer.wait_for_line(event="synced", resource="configmaps")
        command = [program, widgets.access.kubeconfig, "churn", namespace, "1000"]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
        stored = _list_stored(widgets, namespace)
        assert len(stored["configmaps"]) == 501, "every second one, and the authority's"
        wait_until(informer.read_caches, lambda found: found == stored)


def test_no_event_is_missed_when_the_server_is_killed(
    program: Path, tmp_path: Path, kubectl_path: Path
) -> None:
    port = str(find_free_port())
    with EmbeddedServer.start(tmp_path / "data", "--port", port) as server:
        client_cluster = ClientCluster.from_server(server, tmp_path)
        _create_definition(client_cluster)
        namespace = client_cluster.create_namespace("killed")
        client_cluster.run_kubectl("create configmap kept", namespace=namespace)
        client_cluster.run_kubectl("create configmap lost", namespace=namespace)
        with running_program(program, server.access, "watch", namespace, _WIDGETS) as informer:
            for _ in range(3):
                informer.wait_for_line(event="synced")
            server.process.kill()
            with EmbeddedServer.start(tmp_path / "data", "--port", port):
                client_cluster.run_kubectl("label configmap kept while=away", namespace=namespace)
                client_cluster.run_kubectl("create configmap new", namespace=namespace)
                client_cluster.run_kubectl("delete configmap lost", namespace=namespace)
                stored = _list_stored(client_cluster, namespace)
                found = wait_until(informer.read_caches, lambda found: found == stored)
                assert set(found["configmaps"]) == {"kept", "new", "kube-root-ca.crt"}
                events = {(each["event"], each.get("name")) for each in informer.lines}
                # The watch may be resumed or restarted: a relist also shows that one was deleted.
                assert events & {("deleted", "lost"), ("vanished", "lost")}
                assert events >= {("changed", "kept"), ("added", "new")}


def test_leadership_is_handed_over_between_programs(widgets: ClientCluster, program: Path) -> None:
    namespace = widgets.create_namespace("led")
    words = ("lead", namespace, "crown")
    with running_program(program, widgets.access, *words, "first") as first:
        first.wait_for_line(event="leading")
        with running_program(program, widgets.access, *words, "second") as second:
            assert second.wait_for_line(event="leader")[-1]["identity"] == "first"
            first.stop()
            second.wait_for_line(event="leading")
            lease = widgets.get_json("lease crown", namespace)["spec"]
            assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)


def _create_definition(client_cluster: ClientCluster) -> None:
    client_cluster.run_kubectl("apply -f -", _DEFINITION)
    client_cluster.run_kubectl(
        "wait --for=condition=Established crd/widgets.example.com --timeout=30s"
    )


def _write_widget(client_cluster: ClientCluster, namespace: str, size: int) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    client_cluster.run_kubectl(
        "apply -f -", json.dumps({**body, "spec": {"size": size}}), namespace
    )


def _list_stored(client_cluster: ClientCluster, namespace: str) -> Any:
    return {
        resource: {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in client_cluster.get_json(resource, namespace)["items"]
        }
        for resource in ("pods", "configmaps", "widgets")
    }
