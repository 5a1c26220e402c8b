"""A program on client-go: its informers stay equal to the embedded API, whatever happens."""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from tests.clients.ground import PATIENCE, Ground, until
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.harness.embedded import EmbeddedServer
from tests.harness.process import free_port

pytestmark = pytest.mark.timeout(900)  # The first test builds the program, which may take minutes.

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
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built once; most of it is there since the control plane was built."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go on this machine: with Go 1.26 or newer on the PATH, this runs")
    if binaries() is None:
        # Then all of client-go would have to be fetched and compiled here.
        pytest.skip(HOW_TO_GET)
    binary = tmp_path_factory.mktemp("informer") / "informer"
    subprocess.run(
        [go, "build", "-trimpath", "-o", binary, "."],
        cwd=_SOURCE,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
        check=True,
        timeout=600,
    )
    return binary


class Lines:
    """What a running program says, line by line; it ends when its input does."""

    def __init__(self, program: Path, access: Access, *words: str) -> None:
        command = [program, access.kubeconfig, *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.heard: list[Any] = []
        self._said: Queue[Any] = Queue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.heard.append(json.loads(line))
            self._said.put(self.heard[-1])

    def until(self, **wanted: Any) -> list[Any]:
        """All that is said up to the first line with those fields."""
        said: list[Any] = []
        while not said or any(said[-1].get(key) != value for key, value in wanted.items()):
            said.append(self._said.get(timeout=PATIENCE))
        return said

    def caches(self) -> Any:
        """What the informers hold: per resource, the version of each object by name."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        return self.until(event="caches")[-1]["caches"]

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()


@contextmanager
def running(program: Path, access: Access, *words: str) -> Generator[Lines]:
    lines = Lines(program, access, *words)
    try:
        yield lines
    finally:
        lines.end()


@pytest.fixture(scope="module")
def widgets(ground: Ground) -> Ground:
    _define_widgets(ground)
    return ground


def test_informers_hear_of_typed_and_custom_objects(widgets: Ground, program: Path) -> None:
    namespace = widgets.namespace("heard")
    with running(program, widgets.access, "watch", namespace, _WIDGETS) as informer:
        for _ in range(3):
            informer.until(event="synced")
        _write_widget(widgets, namespace, 1)
        assert informer.until(event="added", resource="widgets")[-1]["name"] == "a"
        _write_widget(widgets, namespace, 2)
        informer.until(event="changed", resource="widgets", name="a")
        widgets.run("delete widget a", namespace=namespace)
        informer.until(event="deleted", resource="widgets", name="a")
        pod = "run p --image=registry.example.com/p"
        widgets.run(pod, namespace=namespace)
        widgets.run("wait --for=condition=Ready pod/p --timeout=30s", namespace=namespace)
        informer.until(event="changed", resource="pods", name="p")
        assert until(informer.caches, lambda found: found == _stored(widgets, namespace))


def test_a_typed_clientset_writes_with_every_verb(widgets: Ground, program: Path) -> None:
    namespace = widgets.namespace("typed")
    command = [program, widgets.access.kubeconfig, "write", namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
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


def test_a_cache_equals_the_list_after_a_thousand_objects(widgets: Ground, program: Path) -> None:
    namespace = widgets.namespace("churned")
    with running(program, widgets.access, "watch", namespace, _WIDGETS) as informer:
        informer.until(event="synced", resource="configmaps")
        command = [program, widgets.access.kubeconfig, "churn", namespace, "1000"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        stored = _stored(widgets, namespace)
        assert len(stored["configmaps"]) == 501, "every second one, and the authority's"
        until(informer.caches, lambda found: found == stored)


def test_no_event_is_missed_when_the_server_is_killed(
    program: Path, tmp_path: Path, kubectl_path: Path
) -> None:
    port = str(free_port())
    with EmbeddedServer.start(tmp_path / "data", "--port", port) as server:
        ground = Ground.on(server, tmp_path)
        _define_widgets(ground)
        namespace = ground.namespace("killed")
        ground.run("create configmap kept", namespace=namespace)
        ground.run("create configmap lost", namespace=namespace)
        with running(program, server.access, "watch", namespace, _WIDGETS) as informer:
            for _ in range(3):
                informer.until(event="synced")
            server.process.kill()
            with EmbeddedServer.start(tmp_path / "data", "--port", port):
                ground.run("label configmap kept while=away", namespace=namespace)
                ground.run("create configmap new", namespace=namespace)
                ground.run("delete configmap lost", namespace=namespace)
                stored = _stored(ground, namespace)
                found = until(informer.caches, lambda found: found == stored)
                assert set(found["configmaps"]) == {"kept", "new", "kube-root-ca.crt"}
                events = {(each["event"], each.get("name")) for each in informer.heard}
                # The watch may be resumed, or begun anew: then it is known that one is gone.
                assert events & {("deleted", "lost"), ("vanished", "lost")}
                assert events >= {("changed", "kept"), ("added", "new")}


def test_leadership_passes_from_one_program_to_the_next(widgets: Ground, program: Path) -> None:
    namespace = widgets.namespace("led")
    words = ("lead", namespace, "crown")
    with running(program, widgets.access, *words, "first") as first:
        first.until(event="leading")
        with running(program, widgets.access, *words, "second") as second:
            assert second.until(event="leader")[-1]["identity"] == "first"
            first.end()
            second.until(event="leading")
            lease = widgets.read("lease crown", namespace)["spec"]
            assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)


def _define_widgets(ground: Ground) -> None:
    ground.run("apply -f -", _DEFINITION)
    ground.run("wait --for=condition=Established crd/widgets.example.com --timeout=30s")


def _write_widget(ground: Ground, namespace: str, size: int) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    ground.run("apply -f -", json.dumps({**body, "spec": {"size": size}}), namespace)


def _stored(ground: Ground, namespace: str) -> Any:
    return {
        resource: {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in ground.read(resource, namespace)["items"]
        }
        for resource in ("pods", "configmaps", "widgets")
    }
