"""Triton's own client and perf_analyzer on our server."""

from pathlib import Path

from tests.harness.triton_client import run_client, run_perf_analyzer
from tests.serving.modelserver.server import ModelServer

_ADD = """
import sys
import numpy as np
import tritonclient.{protocol} as client

server = client.InferenceServerClient(sys.argv[1])
assert server.is_server_live() and server.is_server_ready() and server.is_model_ready("add")
values = np.arange(16, dtype=np.int32)
inputs = [client.InferInput(name, [16], "INT32") for name in ("INPUT0", "INPUT1")]
for each in inputs:
    each.set_data_from_numpy(values)
found = server.infer("add", inputs, request_id="one")
assert (found.as_numpy("OUTPUT0") == 2 * values).all()
assert (found.as_numpy("OUTPUT1") == 0).all()
text = client.InferInput("INPUT0", [2], "BYTES")
text.set_data_from_numpy(np.array(["one", "zwölf"], dtype=object))
assert list(server.infer("words", [text]).as_numpy("OUTPUT0")) == [b"one", "zwölf".encode()]
index = server.get_model_repository_index({json})
statistics = server.get_inference_statistics("add"{comma_json})
config = server.get_model_config("batched"{comma_json})
metadata = server.get_model_metadata("scale"{comma_json})
print(metadata["platform"], {batch})
"""


def test_triton_client_is_served_over_grpc(
    tritonclient_part: Path, model_server: ModelServer
) -> None:
    script = _ADD.format(
        protocol="grpc",
        json="as_json=True",
        comma_json=", as_json=True",
        batch='config["config"]["max_batch_size"]',
    )
    done = run_client(tritonclient_part, script, model_server.grpc_address)
    assert done.stdout.split() == ["onnxruntime_onnx", "8"], done.stderr


def test_triton_client_is_served_over_http(
    tritonclient_part: Path, model_server: ModelServer
) -> None:
    script = _ADD.format(protocol="http", json="", comma_json="", batch='config["max_batch_size"]')
    address = model_server.url.removeprefix("http://")
    done = run_client(tritonclient_part, script, address)
    assert done.stdout.split() == ["onnxruntime_onnx", "8"], done.stderr


def test_perf_analyzer_measures_a_model(tritonclient_part: Path, model_server: ModelServer) -> None:
    address = model_server.url.removeprefix("http://")
    for protocol, target in (("grpc", model_server.grpc_address), ("http", address)):
        done = run_perf_analyzer(
            tritonclient_part,
            *("-m", "add", "-u", target, "-i", protocol, "--request-count", "20"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Request count: 20" in done.stdout, done.stdout
