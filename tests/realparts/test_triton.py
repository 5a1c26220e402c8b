"""Triton of the real parts runs a model in Python; its client and perf_analyzer reach it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.http_probe import fetch
from tests.harness.triton_client import run_client, run_perf_analyzer
from tests.harness.triton_server import TritonServer, write_add_model

ADD = """
import sys
import numpy
from tritonclient import grpc

client = grpc.InferenceServerClient(sys.argv[1])
inputs = [grpc.InferInput(name, [4], "FP32") for name in "AB"]
for each in inputs:
    each.set_data_from_numpy(numpy.array([1, 2, 3, 4], numpy.float32))
print(client.infer("add", inputs).as_numpy("SUM").tolist())
"""


@pytest.fixture(scope="module")
def triton(triton_part: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    folder = tmp_path_factory.mktemp("triton")
    for name in ("add", "other"):
        write_add_model(folder / "models", name)
    with TritonServer.start(triton_part, folder, folder / "models", "add") as server:
        yield server


def test_model_in_python_computes(triton: TritonServer) -> None:
    tensor = {"shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    body = json.dumps({"inputs": [{"name": name, **tensor} for name in "AB"]})
    status, answer = fetch(f"{triton.url}/v2/models/add/infer", body.encode())
    assert (status, json.loads(answer)["outputs"][0]["data"]) == (200, [2, 4, 6, 8])


def test_models_are_loaded_and_unloaded_on_request(triton: TritonServer) -> None:
    ready = f"{triton.url}/v2/models/other/ready"
    assert fetch(ready)[0] == 400
    repository = f"{triton.url}/v2/repository/models/other"
    assert fetch(f"{repository}/load", b"{}")[0] == 200
    assert fetch(ready)[0] == 200
    assert fetch(f"{repository}/unload", b"{}")[0] == 200
    assert fetch(ready)[0] == 400


def test_client_gets_the_result_over_grpc(tritonclient_part: Path, triton: TritonServer) -> None:
    done = run_client(tritonclient_part, ADD, f"127.0.0.1:{triton.grpc_port}")
    assert (done.stdout, done.stderr) == ("[2.0, 4.0, 6.0, 8.0]\n", "")


def test_perf_analyzer_measures_the_model(tritonclient_part: Path, triton: TritonServer) -> None:
    done = run_perf_analyzer(
        tritonclient_part,
        *("-m", "add", "-i", "grpc", "-u", f"127.0.0.1:{triton.grpc_port}"),
        # So many that they do not end before it has asked for the first statistics.
        *("--request-count", "1000"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Request count: 1000" in done.stdout
