"""Model servers of ours, each in a process of its own."""

import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kilonova.serving.gateway.model import Endpoint
from tests.harness.http_probe import is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tests.serving.gateway.support.services import build_endpoint


@dataclass(frozen=True, slots=True)
class ModelServer:
    """One that is ready."""

    process: ServerProcess
    endpoint: Endpoint

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.endpoint.http_port}"

    @property
    def grpc_url(self) -> str:
        return f"grpc://127.0.0.1:{self.endpoint.grpc_port}"


@contextmanager
def run_model_servers(folder: Path, count: int, model: str) -> Generator[list[ModelServer]]:
    """So many servers of a model, as `kilonova serve-model --model` takes it."""
    with ExitStack() as stack:
        servers = [_start(folder, f"main-{number}", model) for number in range(count)]
        for each in servers:
            stack.callback(each.process.kill)
        for each in servers:
            url = f"{each.http_url}/v2/health/ready"
            each.process.wait_until(lambda url=url: is_serving(url))
        yield servers


def _start(folder: Path, name: str, model: str) -> ModelServer:
    http_port, grpc_port = find_free_port(), find_free_port()
    command = [
        *(sys.executable, "-P", "-m", "kilonova.cli", "serve-model", "--host", "127.0.0.1"),
        *("--http-port", str(http_port), "--grpc-port", str(grpc_port)),
        *("--metrics-port", str(find_free_port()), "--model", model),
    ]
    process = ServerProcess(name, command, folder / f"{name}.log")
    endpoint = build_endpoint(name, address="127.0.0.1", http_port=http_port, grpc_port=grpc_port)
    return ModelServer(process, endpoint)
