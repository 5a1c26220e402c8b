"""The model loader and a real model server, over HTTP and over gRPC alone."""

import json
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_probe import fetch
from tests.harness.server_process import ServerProcess, find_free_port
from tests.serving.models.loader_cluster import LoaderCluster, loader_cluster

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class RealServer:
    """A running `kilonova serve-model`."""

    http_port: int
    grpc_port: int
    command: tuple[str | Path, ...]
    log: Path

    def start(self) -> ServerProcess:
        """Start it anew."""
        process = ServerProcess("serve-model", self.command, self.log)
        process.wait_until(self._is_live)
        return process

    def _is_live(self) -> bool:
        try:
            return fetch(f"http://{ADDRESS}:{self.http_port}/v2/health/live")[0] == 200
        except OSError:
            return False

    def infer(self, model: str) -> Any:
        """One inference."""
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [3.0]}
        request = urllib.request.Request(
            f"http://{ADDRESS}:{self.http_port}/v2/models/{model}/infer",
            json.dumps({"inputs": [tensor]}).encode(),
        )
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["outputs"][0]["data"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server with two models that it can load, and one that it cannot."""
    folder = tmp_path_factory.mktemp("real")
    repository = folder / "models"
    write_model(repository / "double/1/model.onnx", "Add")
    write_model(repository / "square/1/model.onnx", "Mul")
    (repository / "broken/1").mkdir(parents=True)
    (repository / "broken/1/model.onnx").write_bytes(b"no model")
    http_port, grpc_port = find_free_port(), find_free_port()
    command = (
        *(sys.executable, "-m", "kilonova.serving.modelserver", f"--host={ADDRESS}"),
        *(f"--http-port={http_port}", f"--grpc-port={grpc_port}"),
        *(f"--metrics-port={find_free_port()}", f"--model-repository={repository}"),
        *("--model-control=explicit", "--drain-delay=0"),
    )
    server = RealServer(http_port, grpc_port, command, folder / "log")
    process = server.start()
    yield server
    process.stop()


def write_model(path: Path, operation: str) -> None:
    """A model with one operation on its input and itself."""
    from onnx import TensorProto, helper, save_model

    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
        for name in ("INPUT0", "OUTPUT0")
    ]
    node = helper.make_node(operation, ["INPUT0", "INPUT0"], ["OUTPUT0"])
    graph = helper.make_graph([node], "graph", tensors[:1], tensors[1:])
    opset = helper.make_opsetid("", 21)
    path.parent.mkdir(parents=True)
    save_model(helper.make_model(graph, opset_imports=[opset], ir_version=10), str(path))


def model(name: str) -> dict[str, Any]:
    return {"name": name}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_models_are_loaded_unloaded_and_broken_ones_explained(
    server: RealServer, protocol: str
) -> None:
    ports = {"http": server.http_port, "grpc": 0, "metrics": 0}
    if protocol == "grpc":
        ports = {"http": 0, "grpc": server.grpc_port, "metrics": 0}
    async with loader_cluster() as cluster:
        await cluster.create_service([model("double"), model("broken")], ports=ports)
        await cluster.create_server("server-0", ADDRESS)
        await cluster.wait_loaded(**{"server-0": ["double"]})
        assert server.infer("double") == [6.0]
        await cluster.wait_state("server-0", is_broken_explained)
        await cluster.declare([model("square")])
        await cluster.wait_loaded(**{"server-0": ["square"]})
        assert server.infer("square") == [9.0]
        await wait_unloaded(cluster)


def is_broken_explained(states: dict[str, Any]) -> bool:
    broken = states.get("broken", {})
    return broken.get("state") == "Failed" and "broken" in broken["message"]


async def wait_unloaded(cluster: LoaderCluster) -> None:
    """Leave the server without models, for the next test."""
    await cluster.declare([])
    await cluster.wait_loaded(**{"server-0": []})
    await cluster.wait_state("server-0", lambda states: not states)
