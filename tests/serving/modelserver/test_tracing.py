"""Traces: spans continue the trace of the gateway, and arrive by OTLP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from kilonova.serving.modelserver.otlp import trace_pb2 as messages
from tests.harness.otel_collector import OtelCollector
from tests.serving.modelserver.server import ModelServer, connect, grpc_request, json_input

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
NOT_SAMPLED = {"traceparent": f"00-{TRACE[::-1]}-{PARENT}-00"}


class Collector:
    """Receives spans by OTLP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        handler = grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=messages.ExportTraceServiceRequest.FromString,
            response_serializer=messages.ExportTraceServiceResponse.SerializeToString,
        )
        self._server = grpc.server(ThreadPoolExecutor(1))
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "opentelemetry.proto.collector.trace.v1.TraceService", {"Export": handler}
                ),
            )
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None)

    def _export(self, request: Any, _context: Any) -> messages.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return messages.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.stop()


async def test_spans_continue_the_trace_of_the_gateway(
    tmp_path: Path, collector: Collector
) -> None:
    server = ModelServer.start(
        tmp_path,
        f"--otlp-endpoint=127.0.0.1:{collector.port}",
        "--model=identity",
        "--llm=tiny,decode=1ms",
        "--drain-delay=0",
    )
    body = b'{"model":"tiny","prompt":"a","max_tokens":2,"stream":true}'
    server.send("POST", "/v1/completions", body, SAMPLED)
    server.send("POST", "/v2/models/identity/infer", b"{}", SAMPLED)
    server.send("POST", "/v2/models/identity/infer", b"{}", NOT_SAMPLED)
    async with server.open_channel() as channel:
        request = grpc_request("identity", ("INPUT0", "FP32", [1], b"1234"))
        await connect(channel).model_infer(request, metadata=tuple(SAMPLED.items()))
    server.infer("identity", json_input("INPUT0", [1.0], datatype="FP32"))
    server.process.stop()  # sends what is left
    continued = [each for each in collector.spans if each.trace_id.hex() == TRACE]
    assert sorted(each.name for each in continued) == [
        "ModelInfer",
        "ModelInfer",
        "text_completion",
    ]
    assert {each.parent_span_id.hex() for each in continued} == {PARENT}
    assert {each.attributes[0].value.string_value for each in continued} == {"identity", "tiny"}
    failed = [each for each in continued if each.status.code == 2]
    assert ["inputs" in each.status.message for each in failed] == [True]
    assert len(collector.spans) == 4  # and one without a gateway


def test_spans_arrive_at_a_real_collector(otelcol_part: Path, tmp_path: Path) -> None:
    with OtelCollector.start(otelcol_part, tmp_path) as collector:
        server = ModelServer.start(
            tmp_path, f"--otlp-endpoint={collector.endpoint}", "--drain-delay=0"
        )
        server.send("POST", "/v2/models/identity/infer", b"{}", SAMPLED)
        span = collector.wait_for_span("ModelInfer")
        server.process.stop()
    assert (span.trace_id, span.parent_id, span.service) == (TRACE, PARENT, "kilonova")
    assert span.attributes["model.name"] == "identity"


def test_endpoint_that_is_away_disturbs_nothing(tmp_path: Path) -> None:
    server = ModelServer.start(tmp_path, "--otlp-endpoint=127.0.0.1:1", "--drain-delay=0")
    tensor = json_input("INPUT0", [1.0], datatype="FP32")
    assert server.infer("identity", tensor)[0] == 200
    server.process.wait_until(lambda: "spans not sent" in server.process.log.read_text())
    assert server.infer("identity", tensor)[0] == 200
    server.process.stop()
