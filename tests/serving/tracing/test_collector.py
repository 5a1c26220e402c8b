"""Requests in a real collector: one trace through the gateway to the server."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import grpc.aio
import pytest

from kilonova.api.serving import Tracing
from tests.harness.otel_collector import OtelCollector
from tests.serving.gateway.support.clients import call, open_channel, open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_endpoint,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.modelserver.server import ModelServer, grpc_request, json_input
from tests.serving.tracing.collected_traces import CollectedTraces, list_ancestors

GATEWAY, SERVER = "web-gateway", "web-main"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
NOT_TRACED = {"traceparent": f"00-{TRACE[::-1]}-{PARENT}-00"}
TENSOR = json.dumps({"inputs": [json_input("INPUT0", [1.0], datatype="FP32")]}).encode()
PROMPT = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": 2}).encode()

pytestmark = pytest.mark.real_parts


@pytest.fixture(scope="module")
def collector(
    otelcol_part: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtelCollector]:
    with OtelCollector.start(otelcol_part, tmp_path_factory.mktemp("otelcol")) as collector:
        yield collector


@pytest.fixture(scope="module")
def model_server(
    collector: OtelCollector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelServer]:
    server = start_server(tmp_path_factory.mktemp("server"), collector.endpoint)
    yield server
    server.process.stop()


def start_server(folder: Path, collector: str) -> ModelServer:
    return ModelServer.start(
        folder,
        f"--otlp-endpoint={collector}",
        "--model=identity",
        "--llm=tiny,decode=1ms",
        "--drain-delay=0",
        environment={"OTEL_SERVICE_NAME": SERVER},
    )


class Client:
    """A client of a gateway, in three languages."""

    def __init__(self, session: aiohttp.ClientSession, channel: grpc.aio.Channel) -> None:
        self._session = session
        self._channel = channel

    async def infer_over_grpc(self, headers: dict[str, str]) -> None:
        message = grpc_request("identity", ("INPUT0", "FP32", [1], b"1234"))
        await call(
            self._channel, message=message.SerializeToString(), metadata=list(headers.items())
        )

    async def infer_over_http(self, headers: dict[str, str]) -> None:
        await self._post("/v2/models/identity/infer", TENSOR, headers)

    async def complete(self, headers: dict[str, str]) -> None:
        await self._post("/v1/completions", PROMPT, headers)

    async def send_all(self, headers: dict[str, str]) -> None:
        for each in (self.infer_over_grpc, self.infer_over_http, self.complete):
            await each(headers)

    async def _post(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        async with self._session.post(path, data=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()


@asynccontextmanager
async def run_service(
    server: ModelServer, collector: str, percent: float
) -> AsyncGenerator[Client]:
    """A gateway in front of the server."""
    tracing = Tracing(endpoint=collector, sampling_percent=percent)
    spec = build_spec(build_group(runtime="ModelServer"), gateway=build_gateway(tracing=tracing))
    endpoint = build_endpoint(
        address="127.0.0.1", http_port=server.ports["http"], grpc_port=server.ports["grpc"]
    )
    async with (
        run_gateway(spec, build_state([endpoint])),
        open_session(spec.gateway.http_port) as session,
        open_channel(spec.gateway.grpc_port) as channel,
    ):
        yield Client(session, channel)


async def test_request_is_one_trace_from_the_gateway_to_the_server(
    collector: OtelCollector, model_server: ModelServer
) -> None:
    traces = CollectedTraces(collector)
    async with run_service(model_server, collector.endpoint, 100) as client:
        await client.send_all({})
        found = await traces.wait_for(3, frozenset({GATEWAY, SERVER}))
    assert len(found) == 3
    names: list[str] = []
    for trace in found.values():
        [span] = [each for each in trace if each.service == SERVER]
        names.append(span.name)
        ancestors = list_ancestors(span, trace)
        assert {each.service for each in ancestors} == {GATEWAY}
        assert ancestors[-1].name == "ingress"
        assert ancestors[-1].parent_id == ""
        assert ancestors[-1].attributes["kilonova.service"] == "default/web"
    assert sorted(names) == ["ModelInfer", "ModelInfer", "text_completion"]


async def test_only_what_a_client_traces_is_traced_without_sampling(
    collector: OtelCollector, model_server: ModelServer
) -> None:
    traces = CollectedTraces(collector)
    async with run_service(model_server, collector.endpoint, 0) as client:
        await client.send_all({})
        await client.send_all(NOT_TRACED)
        await client.send_all({"x-client-trace-id": "1"})
        await client.send_all({**TRACED, "x-request-id": "of-the-client"})
        found = await traces.wait_for(1, frozenset({GATEWAY, SERVER}))
        while len([each for each in found[TRACE] if each.service == SERVER]) < 3:
            found = await traces.wait_for(1, frozenset({GATEWAY, SERVER}))
    assert found.keys() == {TRACE}
    roots = [each for each in found[TRACE] if each.name == "ingress"]
    assert {each.parent_id for each in roots} == {PARENT}
    for span in found[TRACE]:
        if span.service == SERVER:
            assert list_ancestors(span, found[TRACE])[-1] in roots


async def test_requests_go_on_while_the_collector_is_away(tmp_path: Path) -> None:
    server = start_server(tmp_path, "127.0.0.1:1")
    async with run_service(server, "127.0.0.1:1", 100) as client:
        for _ in range(50):
            await client.send_all({})
    server.process.stop()
