"""The process: what it refuses, how it starts, how it stops."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.serving.modelserver.onnx_models import save_model, scale_graph
from tests.serving.modelserver.server import ModelServer, grpc_request, json_input

VALUE = json_input("INPUT0", [1.0], datatype="FP32")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run the server until it gives up."""
    command = [sys.executable, "-m", "kilonova.serving.modelserver", "--host=127.0.0.1"]
    free = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    return subprocess.run(
        [*command, *free, *flags], capture_output=True, text=True, timeout=60, check=False
    )


def test_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for name in ("http", "grpc", "metrics"):
            done = run(f"--{name}-port={port}")
            assert done.returncode == 1
            assert f"--{name}-port" in done.stderr
            assert "in use" in done.stderr


def test_model_that_is_named_must_be_loaded(tmp_path: Path) -> None:
    save_model(tmp_path, "good", scale_graph(2.0))
    save_model(tmp_path, "bad", scale_graph(2.0), config='backend: "python"')
    done = run(f"--model-repository={tmp_path}", "--model-control=explicit", "--model=bad")
    assert done.returncode == 1
    assert "model 'bad' cannot be loaded: config.pbtxt: backend \"python\"" in done.stderr


def test_other_models_are_served_beside_one_that_cannot_be_loaded(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    save_model(repository, "good", scale_graph(2.0))
    save_model(repository, "bad", scale_graph(2.0), config='backend: "python"')
    server = ModelServer.start(tmp_path, f"--model-repository={repository}", "--drain-delay=0")
    index = server.post("/v2/repository/index")[1]
    assert [(each["name"], each["state"]) for each in index] == [
        ("bad", "UNAVAILABLE"),
        ("good", "READY"),
    ]
    server.process.stop()


def test_stop_accepts_for_a_while_and_finishes_what_it_has(tmp_path: Path) -> None:
    """SIGTERM: not ready at once; requests are still accepted until the delay is over; those in
    flight then, among them a stream of tokens, are finished; exit 0."""
    server = ModelServer.start(
        tmp_path,
        "--model=slow,time=1200ms,instances=9",
        "--llm=tiny,decode=20ms",
        "--drain-delay=0.6",
    )
    answers: list[object] = []

    def infer() -> None:
        answers.append(server.infer("slow", VALUE)[0])

    def stream() -> None:
        body = {"model": "tiny", "prompt": "a", "max_tokens": 60, "stream": True}
        answers.append(
            server.send("POST", "/v1/completions", json.dumps(body).encode())[2].split(b"\n")[-3]
        )

    early = [threading.Thread(target=each) for each in (infer, stream)]
    for thread in early:
        thread.start()
    running = 'vllm:num_requests_running{model_name="tiny"}'
    server.process.wait_until(lambda: server.read_metrics().get(running) == 1)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait_until(lambda: not server.is_ready(), timeout=0.5)
    late = threading.Thread(target=infer)
    late.start()
    server.process.wait_until(lambda: server.infer("slow")[0] == 503)
    for thread in (*early, late):
        thread.join()
    assert server.process.wait() == 0
    assert sorted(answers, key=str) == [200, 200, b"data: [DONE]"]


def test_second_signal_skips_the_delay(tmp_path: Path) -> None:
    server = ModelServer.start(tmp_path, "--drain-delay=60")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait_until(lambda: not server.is_ready())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 0


def test_requests_that_take_too_long_are_abandoned(tmp_path: Path) -> None:
    flags = ("--model=slow,time=60s", "--drain-delay=0", "--drain-timeout=0.2")
    server = ModelServer.start(tmp_path, *flags)
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=30)
    connection.request("POST", "/v2/models/slow/infer", json.dumps({"inputs": [VALUE]}))
    pending = "/v2/models/slow/ready"
    assert server.get(pending)[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    assert "requests in flight are abandoned" in server.process.log.read_text()
    connection.close()


def test_server_starts_small_and_rests(tmp_path: Path) -> None:
    begin = time.monotonic()
    server = ModelServer.start(tmp_path, "--drain-delay=0")
    seconds = time.monotonic() - begin
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    loaded = [name for name in ("numpy", "onnxruntime", "cryptography") if name in maps]
    server.process.stop()
    assert loaded == []
    assert resident < 90 * 1024
    assert seconds < 10  # 0.3 s on a machine with nothing else to do


def test_command_is_one_of_kilonova(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kilonova.cli", "serve-model", "--http-port=0"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--llm=a,b"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert "--llm a,b: 'b': write option=value, each once" in done.stderr


async def test_large_request_is_refused(tmp_path: Path) -> None:
    server = ModelServer.start(tmp_path, "--max-request-bytes=1000", "--drain-delay=0")
    status, _, body = server.send("POST", "/v2/models/identity/infer", bytes(2000))
    assert status == 413
    assert b"larger than 1000 bytes" in body
    async with server.open_channel() as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        request = grpc_request("identity", ("INPUT0", "FP32", [500], bytes(2000)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request.SerializeToString())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    server.process.stop()
