"""The clusters in which nodes die, and the workload on them."""

import math
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster.observation import has_ready_nodes, wait_until
from bench.fleet.clusters import GPUS
from bench.fleet.inputs import Inputs
from bench.home.servers import NAMESPACE, Server
from kilonova.api.inference_engine import GROUP, VERSION
from kilonova.instances.resources import NODES
from kilonova.kube import Client, Resource, unstructured_resource
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import ServerProcess

_INSTANCES = unstructured_resource(
    GROUP, VERSION, "inferenceengineinstances", "InferenceEngineInstance", True
)
_DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
_OUTAGE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NODE = "n"
_UPSTREAM_GRACE = "50s"

WaitUntilBound = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SwapCluster:
    """A cluster, and a workload for it."""

    access: ServerAccess
    pods: int
    """Of the workload."""
    create: Callable[[Client, WaitUntilBound], Awaitable[None]]
    """Creates the workload; returns when all pods are bound."""


StartCluster = Callable[[Path, Inputs], AbstractContextManager[SwapCluster]]
"""Starts a cluster in an empty directory; its nodes are registered."""


@contextmanager
def start_ours(folder: Path, inputs: Inputs) -> Generator[SwapCluster]:
    """`kilonova up` with scheduler and instances, in one process; the workload is an instance."""

    async def create(client: Client, wait_until_bound: WaitUntilBound) -> None:
        spec = {"model": "bench", "image": "bench", "targetAgents": inputs.agents}
        await _create(client, _INSTANCES, {**spec, "accelerator": {"count": 1}})
        await wait_until_bound()

    fleet = str(_write_fleet_file(folder, inputs))
    options = ("--port", "0", "--scheduler", "--instances", "--nodes", fleet)
    with EmbeddedServer.start(folder / "data", *options) as server:
        _prepare(server.access, inputs)
        yield SwapCluster(server.access, inputs.agents + 1, create)


@contextmanager
def start_peer(folder: Path, inputs: Inputs) -> Generator[SwapCluster]:
    """Kubernetes, its nodes simulated by a process of ours; the workload is a Deployment."""
    used = math.ceil(inputs.agents / GPUS)

    async def create(client: Client, wait_until_bound: WaitUntilBound) -> None:
        # Its scheduler spreads pods: as few nodes as those of an instance lose as many.
        spare = [f"{_NODE}-{number}" for number in range(used, inputs.swap_nodes)]
        await _cordon(client, spare, is_cordoned=True)
        await _create(client, _DEPLOYMENTS, _build_deployment(inputs.agents))
        await wait_until_bound()
        await _cordon(client, spare, is_cordoned=False)

    with ControlPlane.start(
        folder / "control-plane",
        controllers="*",
        with_scheduler=True,
        durable=True,
        node_grace=_UPSTREAM_GRACE,
    ) as plane:
        arguments = [str(plane.access.kubeconfig), str(_write_fleet_file(folder, inputs))]
        command = [sys.executable, "-m", "bench.cluster.simulated_nodes", *arguments]
        nodes = ServerProcess("nodes", command, folder / "nodes.log")
        try:
            _prepare(plane.access, inputs)
            yield SwapCluster(plane.access, inputs.agents, create)
        finally:
            nodes.stop()


def _prepare(access: ServerAccess, inputs: Inputs) -> None:
    server = Server(access, ())
    server.create_namespace()
    wait_until(lambda: has_ready_nodes(server, inputs.swap_nodes), "all nodes to be ready")


def _write_fleet_file(folder: Path, inputs: Inputs) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(
        f"nodes: [{{name: {_NODE}, count: {inputs.swap_nodes}, racks: 2, start: 100ms, "
        f"stop: 100ms, gpu: {{model: NVIDIA-H100-80GB-HBM3, count: {GPUS}}}}}]\n"
    )
    return path


async def _create(client: Client, resource: Resource[Any], spec: dict[str, Any]) -> None:
    await client.create(resource, {"metadata": {"name": "bench"}, "spec": spec}, NAMESPACE)


async def _cordon(client: Client, nodes: list[str], *, is_cordoned: bool) -> None:
    for name in nodes:
        await client.patch(NODES, name, {"spec": {"unschedulable": is_cordoned or None}})


def _build_deployment(replicas: int) -> dict[str, Any]:
    """As many pods with a GPU each, which leave a dead node at once."""
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        for key in _OUTAGE_TAINTS
    ]
    container = {
        "name": "agent",
        "image": "bench",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    labels = {"app": "bench"}
    return {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "tolerations": tolerations},
        },
    }
