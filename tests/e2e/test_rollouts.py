"""Sets of pods as kube-controller-manager has them, and as kubectl rolls them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client, Reflector
from kilonova.kube.access import connect
from kilonova.local.nodes import Fleet, SimulatedNodes
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.nodes.sim import PODS as SIM_PODS
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl
from tests.local.controllers.apps.scenes import SCENES, picture
from tests.local.embedded_cluster import running

_NODES = Fleet(nodes=(NodeGroup("n", 3, start="20ms", stop="20ms"),))


@asynccontextmanager
async def genuine(folder: Path) -> AsyncGenerator[Client]:
    """Kubernetes with all its controllers and its scheduler; the nodes are simulated ones."""
    with ControlPlane.start(folder, controllers="*", with_scheduler=True) as plane:
        async with connect(plane.access.kubeconfig) as client:
            pods = Reflector(client, SIM_PODS)
            nodes = SimulatedNodes(client, _NODES, lambda: datetime.now(UTC), pods)
            parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
            try:
                await nodes.wait_registered()
                yield client
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)


async def played(client: Client) -> dict[str, Any]:
    """What each scene leaves behind."""
    left: dict[str, Any] = {}
    for name, scene in SCENES.items():
        await scene(client)
        left[name] = await picture(client, name)
    return left


async def test_every_scene_ends_as_on_kubernetes(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    async with genuine(tmp_path) as client, running(fleet=_NODES) as cluster:
        expected, found = await asyncio.gather(played(client), played(cluster.client("test")))
    for name, scene in expected.items():
        for kind, objects in scene.items():
            assert found[name][kind] == objects, f"{kind} of scene {name}"


_SETS = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: "img:1"}}]}}
"""


@pytest.fixture
def kubectl(tmp_path: Path, kubectl_path: Path) -> Iterator[Kubectl]:
    """kubectl on an embedded cluster with three nodes."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: [{name: n, count: 3, start: 20ms, stop: 20ms}]")
    options = ("--port", "0", "--scheduler", "--nodes", str(fleet))
    with EmbeddedServer.start(tmp_path / "data", *options) as server:
        yield Kubectl(kubectl_path, server.access.kubeconfig, tmp_path)


def _run(kubectl: Kubectl, command: str, stdin: str = "") -> str:
    outcome = kubectl(command, stdin=stdin)
    assert outcome.code == 0, f"{command}: {outcome.err}"
    return outcome.out


def _image(kubectl: Kubectl, what: str) -> str:
    path = "{.spec.template.spec.containers[0].image}"
    return _run(kubectl, f"get {what} -o jsonpath={path}")


def _roll(kubectl: Kubectl, what: str, command: str) -> None:
    _run(kubectl, f"{command.replace('WHAT', what)}")
    _run(kubectl, f"rollout status {what} --timeout=60s")


def test_kubectl_rolls_a_deployment(kubectl: Kubectl) -> None:
    what = "deployment/web"
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _roll(kubectl, what, "create deployment web --image=img:1 --replicas=3")
    _roll(kubectl, what, "scale WHAT --replicas=4")
    _roll(kubectl, what, "set image WHAT img=img:2")
    _roll(kubectl, what, "rollout undo WHAT")
    assert _image(kubectl, what) == "img:1"
    lines = _run(kubectl, f"rollout history {what}").split()
    assert [word for word in lines if word.isdigit()] == ["2", "3"]
    _roll(kubectl, what, "rollout undo WHAT --to-revision=2")
    assert _image(kubectl, what) == "img:2"
    _roll(kubectl, what, "rollout restart WHAT")
    _run(kubectl, f"rollout pause {what}")
    _run(kubectl, f"set image {what} img=img:3")
    assert "img:3" not in _run(kubectl, "get pods -o jsonpath={..image}")
    _roll(kubectl, what, "rollout resume WHAT")
    images = _run(kubectl, "get pods -o jsonpath={.items[*].spec.containers[0].image}").split()
    assert "img:3" in images
    assert "Scaled up replica set" in _run(kubectl, f"describe {what}")


def test_kubectl_deletes_with_each_cascade(kubectl: Kubectl) -> None:
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _roll(kubectl, "deployment/web", "create deployment web --image=img:1 --replicas=2")
    _run(kubectl, "delete deployment web --cascade=orphan")
    assert len(_run(kubectl, "get rs,pods -o name").split()) == 3
    _run(kubectl, "delete rs --all --cascade=foreground")
    assert _run(kubectl, "get rs,pods -o name") == ""
    _roll(kubectl, "deployment/web", "create deployment web --image=img:1 --replicas=2")
    _run(kubectl, "delete deployment web --cascade=background")
    _run(kubectl, "wait --for=delete pods --all --timeout=30s")
    assert _run(kubectl, "get rs -o name") == ""


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_kubectl_undoes_by_revisions(kubectl: Kubectl, kind: str) -> None:
    what = f"{kind.lower()}/agent"
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _run(kubectl, "create -f -", stdin=_SETS.format(kind=kind, name="agent"))
    _run(kubectl, f"rollout status {what} --timeout=60s")
    _roll(kubectl, what, "set image WHAT main=img:2")
    _roll(kubectl, what, "rollout undo WHAT")
    assert _image(kubectl, what) == "img:1"
    words = _run(kubectl, f"rollout history {what}").split()
    assert [word for word in words if word.isdigit()] == ["2", "3"]
    _roll(kubectl, what, "rollout restart WHAT")
    assert "img:1" in _run(kubectl, f"rollout history {what} --revision=4")
