"""A real Triton server on a model repository, for tests.

    write_add_model(repository)
    with TritonServer.start(triton_part, folder, repository) as server:
        ...

Its one model adds two tensors, in Python.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.harness.http_probe import is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tools.realparts.parts.triton import COMMAND

_ADD_CONFIG = """\
backend: "python"
max_batch_size: 0
input [{name: "A", data_type: TYPE_FP32, dims: [4]}, {name: "B", data_type: TYPE_FP32, dims: [4]}]
output [{name: "SUM", data_type: TYPE_FP32, dims: [4]}]
"""
_ADD_MODEL = """\
import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._add(request) for request in requests]

    def _add(self, request):
        a, b = (utils.get_input_tensor_by_name(request, name).as_numpy() for name in "AB")
        return utils.InferenceResponse([utils.Tensor("SUM", a + b)])
"""


def write_add_model(repository: Path, name: str = "add") -> None:
    """A model with inputs A and B and the output SUM, of four numbers each."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(_ADD_CONFIG)
    (folder / "1" / "model.py").write_text(_ADD_MODEL)


@dataclass(frozen=True)
class TritonServer(AbstractContextManager["TritonServer"]):
    """A running server, on loopback ports."""

    http_port: int
    grpc_port: int
    metrics_port: int
    process: ServerProcess

    @property
    def url(self) -> str:
        """Of the HTTP API."""
        return f"http://127.0.0.1:{self.http_port}"

    @classmethod
    def start(cls, part: Path, folder: Path, repository: Path, *load: str) -> "TritonServer":
        """Serve a repository; `part` is the fixture `triton_part`. With names of models only those
        are loaded, and further ones on request."""
        http, grpc, metrics = (find_free_port() for _ in range(3))
        control = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in load)]
        process = ServerProcess(
            "tritonserver",
            [
                part / COMMAND,
                f"--model-repository={repository}",
                "--http-address=127.0.0.1",
                f"--http-port={http}",
                "--grpc-address=127.0.0.1",
                f"--grpc-port={grpc}",
                f"--metrics-port={metrics}",
                "--metrics-address=127.0.0.1",
                *(control if load else ()),
            ],
            folder / "triton.log",
        )
        server = cls(http, grpc, metrics, process)
        process.wait_until(lambda: is_serving(f"{server.url}/v2/health/ready"))
        return server

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()
