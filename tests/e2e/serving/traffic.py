"""Clients that never stop: requests over HTTP and gRPC to a service, one after another."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from kilonova.serving.grpc import inference_pb2 as pb

IDENTITY = "/v2/models/identity/infer"
TIMEOUT_SECONDS = 30.0
_PAUSE_SECONDS = 0.02
_TENSOR = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[4],"data":[1,2,3,4]}]}'

Outcome = tuple[str, object]
"""HTTP and a status, or gRPC and a code; 0 and UNAVAILABLE also if nothing listens."""


@dataclass
class Traffic:
    """What came back so far."""

    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    slowest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, outcome: Outcome, seconds: float) -> None:
        """Count an outcome."""
        with self.lock:
            self.outcomes[outcome] += 1
            self.slowest = max(self.slowest, seconds)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more requests were answered."""
        wanted = self.outcomes.total() + count
        deadline = time.monotonic() + 60
        while self.outcomes.total() < wanted:
            assert time.monotonic() < deadline, self.outcomes
            time.sleep(0.02)


SUCCESS: frozenset[Outcome] = frozenset({("HTTP", 200), ("gRPC", grpc.StatusCode.OK)})


def post(
    address: str,
    path: str = IDENTITY,
    body: bytes = _TENSOR,
    headers: Mapping[str, str] | None = None,
) -> http.client.HTTPResponse:
    """The answer to a request, read."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    connection.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply


def build_identity() -> bytes:
    """A ModelInferRequest."""
    request = pb.ModelInferRequest(model_name="identity")
    tensor = request.inputs.add(name="INPUT0", datatype="FP32", shape=[4])
    tensor.contents.fp32_contents.extend([1, 2, 3, 4])
    return request.SerializeToString()


def call(
    address: str,
    method: str = "ModelInfer",
    message: bytes = b"",
    metadata: tuple[tuple[str, str], ...] = (),
) -> tuple[grpc.StatusCode, str]:
    """The status of a call of KServe's v2 protocol, on a connection of its own, and details."""
    options = [
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
    ]
    with grpc.insecure_channel(address, options=options) as channel:
        return call_on(channel, method, message, metadata)


def call_on(
    channel: grpc.Channel,
    method: str = "ModelInfer",
    message: bytes = b"",
    metadata: tuple[tuple[str, str], ...] = (),
) -> tuple[grpc.StatusCode, str]:
    """The same, on a connection."""
    run = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    try:
        run(message, timeout=TIMEOUT_SECONDS, metadata=metadata)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@contextmanager
def running_traffic(
    http_address: str = "",
    grpc_address: str = "",
    *,
    clients: int = 2,
    headers: Mapping[str, str] | None = None,
) -> Generator[Traffic]:
    """So many clients of each address that is given, until the end of the context."""
    traffic, is_over = Traffic(), threading.Event()

    def run(send: Callable[[], Outcome]) -> None:
        while not is_over.is_set():
            begin = time.monotonic()
            outcome = send()
            traffic.note(outcome, time.monotonic() - begin)
            is_over.wait(_PAUSE_SECONDS)

    def send_http() -> Outcome:
        try:
            return "HTTP", post(http_address, headers=headers).status
        except (OSError, http.client.HTTPException) as error:
            return "HTTP", type(error).__name__

    def run_grpc() -> None:
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        metadata = tuple((headers or {}).items())
        message = build_identity()
        with grpc.insecure_channel(grpc_address, options=options) as channel:
            run(lambda: ("gRPC", call_on(channel, "ModelInfer", message, metadata)[0]))

    targets: list[Callable[[], None]] = []
    if http_address:
        targets += [lambda: run(send_http)] * clients
    if grpc_address:
        targets += [run_grpc] * clients
    threads = [threading.Thread(target=each) for each in targets]
    for each in threads:
        each.start()
    try:
        yield traffic
    finally:
        is_over.set()
        for each in threads:
            each.join()
