"""Starts the servers that ours is compared with, each with a model that adds two tensors."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from bench.processes import list_tree
from tests.harness.http_probe import is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tests.harness.triton_server import TritonServer
from tools.realparts.part import Part
from tools.realparts.parts.peers import KSERVE, RAY_SERVE

_PROGRAMS = Path(__file__).parent
_TRITON_CONFIG = """\
backend: "python"
max_batch_size: 0
input [
  {name: "INPUT0", data_type: TYPE_INT32, dims: [16]},
  {name: "INPUT1", data_type: TYPE_INT32, dims: [16]}
]
output [
  {name: "OUTPUT0", data_type: TYPE_INT32, dims: [16]},
  {name: "OUTPUT1", data_type: TYPE_INT32, dims: [16]}
]
"""
_TRITON_MODEL = """\
import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._add(request) for request in requests]

    def _add(self, request):
        names = ("INPUT0", "INPUT1")
        a, b = (utils.get_input_tensor_by_name(request, name).as_numpy() for name in names)
        outputs = [utils.Tensor("OUTPUT0", a + b), utils.Tensor("OUTPUT1", a - b)]
        return utils.InferenceResponse(outputs)
"""


@dataclass(frozen=True, slots=True)
class PeerServer:
    """One that answers, and all of its processes."""

    url: str
    processes: Sequence[psutil.Process]


class StartServer(Protocol):
    """Starts a server with files in a folder."""

    def __call__(self, folder: Path) -> AbstractContextManager[PeerServer]: ...


@contextmanager
def run_kserve(folder: Path) -> Generator[PeerServer]:
    """KServe's SDK, without its logs of requests."""
    with _run_program(KSERVE, folder, "kserve_program.py", ready="/v2/health/ready") as server:
        yield server


@contextmanager
def run_ray_serve(folder: Path) -> Generator[PeerServer]:
    """Ray Serve: its default proxy, and one replica."""
    with _run_program(RAY_SERVE, folder, "ray_serve_program.py", ready="/") as server:
        yield server


def build_triton_start(part: Path) -> StartServer:
    """Triton, with the model in its Python backend."""

    @contextmanager
    def start(folder: Path) -> Generator[PeerServer]:
        model = folder / "models" / "add"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(_TRITON_CONFIG)
        (model / "1" / "model.py").write_text(_TRITON_MODEL)
        with TritonServer.start(part, folder, folder / "models") as server:
            yield PeerServer(server.url, list_tree(server.process.pid))

    return start


@contextmanager
def _run_program(part: Part, folder: Path, program: str, ready: str) -> Generator[PeerServer]:
    port = find_free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        # The packages of the part, and not those of this environment.
        "PYTHONPATH": str(part.get()),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    command = [python, "-P", _PROGRAMS / program, str(port), str(folder)]
    process = ServerProcess(part.name, command, folder / f"{part.name}.log", environment)
    url = f"http://127.0.0.1:{port}"
    processes: list[psutil.Process] = []
    try:
        process.wait_until(lambda: is_serving(url + ready))
        processes = list_tree(process.pid)
        yield PeerServer(url, processes)
    finally:
        # Those of Ray have groups of their own.
        for each in processes:
            if each.is_running():
                each.kill()
        process.kill()
