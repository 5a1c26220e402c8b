"""Rollouts of Deployments, StatefulSets and DaemonSets, compared with Kubernetes."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import Client, Reflector
from kilonova.kube.client.config.client_config import connect
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import NodeGroup
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl
from tests.local.controllers.apps.scenarios import SCENES, describe_objects
from tests.local.embedded_cluster import run_cluster

_NODES = Fleet(nodes=(NodeGroup("n", 3, start="20ms", stop="20ms"),))


@asynccontextmanager
async def kubernetes_controllers(directory: Path) -> AsyncGenerator[Client]:
    """A control plane with all its controllers and its scheduler, and simulated nodes."""
    with ControlPlane.start(directory, controllers="*", with_scheduler=True) as plane:
        async with connect(plane.access.kubeconfig) as client:
            pods = Reflector(client, SIM_PODS)
            nodes = SimulatedNodes(client, _NODES, lambda: datetime.now(UTC), pods)
            tasks = [asyncio.create_task(each.run()) for each in (pods, nodes)]
            try:
                await nodes.wait_registered()
                yield client
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def run_scenarios(client: Client) -> dict[str, Any]:
    """Run all scenarios; returns the objects that each leaves."""
    objects: dict[str, Any] = {}
    for name, scenario in SCENES.items():
        await scenario(client)
        objects[name] = await describe_objects(client, name)
    return objects


@pytest.mark.usefixtures("control_plane_binaries")
async def test_every_scenario_ends_as_on_kubernetes(tmp_path: Path) -> None:
    async with kubernetes_controllers(tmp_path) as client, run_cluster(fleet=_NODES) as cluster:
        expected, found = await asyncio.gather(
            run_scenarios(client), run_scenarios(cluster.client("test"))
        )
    for name, by_kind in expected.items():
        for kind, objects in by_kind.items():
            assert found[name][kind] == objects, f"{kind} of scenario {name}"


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """An embedded cluster with three nodes."""
    folder = tmp_path_factory.mktemp("rollouts")
    fleet = folder / "fleet.yaml"
    fleet.write_text("nodes: [{name: n, count: 3, start: 20ms, stop: 20ms}]")
    options = ("--port", "0", "--scheduler", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as started:
        yield started


@pytest.fixture
def kubectl(
    server: EmbeddedServer, kubectl_path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Kubectl:
    """kubectl on that cluster, in a namespace of this test."""
    namespace = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    body = {"metadata": {"name": namespace}}
    assert server.access.request("POST", "/api/v1/namespaces", body)[0] == 201
    config = yaml.safe_load(server.access.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    return Kubectl(kubectl_path, kubeconfig, server.data.parent)


def _run(kubectl: Kubectl, command: str, stdin: str = "") -> str:
    outcome = kubectl(command, stdin=stdin)
    assert outcome.code == 0, f"{command}: {outcome.err}"
    return outcome.out


def _image(kubectl: Kubectl, resource: str) -> str:
    path = "{.spec.template.spec.containers[0].image}"
    return _run(kubectl, f"get {resource} -o jsonpath={path}")


def _roll_out(kubectl: Kubectl, resource: str, command: str) -> None:
    _run(kubectl, f"{command.replace('RESOURCE', resource)}")
    _run(kubectl, f"rollout status {resource} --timeout=60s")


def test_kubectl_rolls_out_a_deployment(kubectl: Kubectl) -> None:
    resource = "deployment/web"
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _roll_out(kubectl, resource, "create deployment web --image=img:1 --replicas=3")
    _roll_out(kubectl, resource, "scale RESOURCE --replicas=4")
    _roll_out(kubectl, resource, "set image RESOURCE img=img:2")
    _roll_out(kubectl, resource, "rollout undo RESOURCE")
    assert _image(kubectl, resource) == "img:1"
    lines = _run(kubectl, f"rollout history {resource}").split()
    assert [word for word in lines if word.isdigit()] == ["2", "3"]
    _roll_out(kubectl, resource, "rollout undo RESOURCE --to-revision=2")
    assert _image(kubectl, resource) == "img:2"
    _roll_out(kubectl, resource, "rollout restart RESOURCE")
    _run(kubectl, f"rollout pause {resource}")
    _run(kubectl, f"set image {resource} img=img:3")
    assert "img:3" not in _run(kubectl, "get pods -o jsonpath={..image}")
    _roll_out(kubectl, resource, "rollout resume RESOURCE")
    images = _run(kubectl, "get pods -o jsonpath={.items[*].spec.containers[0].image}").split()
    assert "img:3" in images
    assert "Scaled up replica set" in _run(kubectl, f"describe {resource}")


def test_kubectl_deletes_with_each_cascade(kubectl: Kubectl) -> None:
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _roll_out(kubectl, "deployment/web", "create deployment web --image=img:1 --replicas=2")
    _run(kubectl, "delete deployment web --cascade=orphan")
    assert len(_run(kubectl, "get rs,pods -o name").split()) == 3
    _run(kubectl, "delete rs --all --cascade=foreground")
    assert _run(kubectl, "get rs,pods -o name") == ""
    _roll_out(kubectl, "deployment/web", "create deployment web --image=img:1 --replicas=2")
    _run(kubectl, "delete deployment web --cascade=background")
    _run(kubectl, "wait --for=delete pods --all --timeout=30s")
    assert _run(kubectl, "get rs -o name") == ""


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_kubectl_rolls_back_to_revisions(kubectl: Kubectl, kind: str) -> None:
    resource = f"{kind.lower()}/agent"
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _run(kubectl, "create -f -", stdin=_SETS.format(kind=kind, name="agent"))
    _run(kubectl, f"rollout status {resource} --timeout=60s")
    _roll_out(kubectl, resource, "set image RESOURCE main=img:2")
    _roll_out(kubectl, resource, "rollout undo RESOURCE")
    assert _image(kubectl, resource) == "img:1"
    words = _run(kubectl, f"rollout history {resource}").split()
    assert [word for word in words if word.isdigit()] == ["2", "3"]
    _roll_out(kubectl, resource, "rollout restart RESOURCE")
    assert "img:1" in _run(kubectl, f"rollout history {resource} --revision=4")
