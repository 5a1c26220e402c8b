"""A model server in a process of its own, and requests to it."""

import http.client
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from tests.harness.server_process import ServerProcess

_SOURCE = Path(__file__).parents[3] / "src"
HEADER_LENGTH = "inference-header-content-length"


@dataclass
class ModelServer:
    """A running server; its ports are those that it logged."""

    process: ServerProcess
    ports: dict[str, int]

    @classmethod
    def start(
        cls,
        folder: Path,
        *flags: str,
        is_ready: bool = True,
        environment: dict[str, str] | None = None,
    ) -> "ModelServer":
        """Start a server on free ports, and wait until it is ready, or listens."""
        log = folder / "model-server.log"
        ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
        words = ["-m", "kilonova.serving.modelserver", "--host=127.0.0.1", *ports, *flags]
        base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_SOURCE)}
        process = ServerProcess(
            "model-server", [sys.executable, "-P", *words], log, {**base, **(environment or {})}
        )
        process.wait_until(lambda: bool(_read_ports(log)))
        server = cls(process, _read_ports(log))
        if is_ready:
            process.wait_until(server.is_ready)
        return server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['http']}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.ports['grpc']}"

    def is_ready(self) -> bool:
        return self.get("/v2/health/ready")[0] == 200

    def get(self, path: str, port: str = "http") -> tuple[int, Any]:
        """Status and content of a path; JSON is decoded."""
        status, headers, body = self.send("GET", path, port=port)
        is_json = headers.get("content-type") == "application/json"
        return status, json.loads(body) if is_json else body.decode()

    def post(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of the answer to a JSON body."""
        encoded = b"" if body is None else json.dumps(body).encode()
        status, _, content = self.send("POST", path, encoded)
        return status, json.loads(content)

    def infer(self, model: str, *inputs: object, **fields: object) -> tuple[int, Any]:
        """Status and JSON of an inference."""
        return self.post(f"/v2/models/{model}/infer", {"inputs": list(inputs), **fields})

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        port: str = "http",
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of any request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return reply.status, found, reply.read()
        finally:
            connection.close()

    def read_metrics(self) -> dict[str, float]:
        """The samples of /metrics."""
        _, text = self.get("/metrics", port="metrics")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def open_channel(self) -> grpc.aio.Channel:
        """A channel for messages of any size."""
        sizes = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        return grpc.aio.insecure_channel(self.grpc_address, options=sizes)


def connect(channel: grpc.aio.Channel) -> GRPCInferenceServiceStub:
    """The stub of a channel."""
    return GRPCInferenceServiceStub(channel)


def json_input(
    name: str, data: list[Any], shape: list[int] | None = None, datatype: str = "INT32"
) -> dict[str, Any]:
    """An input of a JSON request."""
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


def grpc_request(model: str, *inputs: tuple[str, str, list[int], bytes]) -> pb.ModelInferRequest:
    """A request with raw contents: name, datatype, shape and data of each input."""
    return pb.ModelInferRequest(
        model_name=model,
        inputs=[
            pb.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape)
            for name, datatype, shape, _ in inputs
        ],
        raw_input_contents=[data for *_, data in inputs],
    )


def _read_ports(log: Path) -> dict[str, int]:
    for line in log.read_text().splitlines() if log.exists() else ():
        if '"message":"listening"' in line:
            found = json.loads(line)
            return {name: found[name] for name in ("http", "grpc", "metrics")}
    return {}
