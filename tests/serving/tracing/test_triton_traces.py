"""The traces of a real Triton behind a gateway, started as the controller would start it."""

import json
from pathlib import Path

import pytest

from kilonova.api.serving import Tracing
from tests.harness.http_probe import is_serving
from tests.harness.otel_collector import OtelCollector
from tests.harness.server_process import ServerProcess, find_free_port
from tests.harness.triton_server import write_add_model
from tests.serving.builders.objects import container_of
from tests.serving.gateway.support.clients import open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_endpoint,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.tracing.collected_traces import CollectedTraces, list_ancestors
from tools.realparts.parts.triton import COMMAND

GATEWAY, SERVER = "web-gateway", "web-model"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
TENSORS = [{"name": name, "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]} for name in "AB"]

pytestmark = pytest.mark.real_parts


async def test_triton_traces_what_the_gateway_traces(
    triton_part: Path, otelcol_part: Path, tmp_path: Path
) -> None:
    write_add_model(tmp_path / "models")
    ports = {each: find_free_port() for each in ("http", "grpc", "metrics")}
    with OtelCollector.start(otelcol_part, tmp_path) as collector:
        addresses = {
            "endpoint": collector.endpoint,
            "httpEndpoint": collector.http_endpoint.removeprefix("http://"),
        }
        repository = {"nfs": {"server": "n", "path": "/"}, "mountPath": str(tmp_path / "models")}
        container = container_of(
            {"name": "model", "runtime": "Triton", "ports": ports, "modelRepository": repository},
            gateway={"tracing": addresses},
        )
        process = ServerProcess(
            "tritonserver", [triton_part / COMMAND, *container["args"]], tmp_path / "triton.log"
        )
        url = f"http://127.0.0.1:{ports['http']}/v2/health/ready"
        process.wait_until(lambda: is_serving(url))
        traces = CollectedTraces(collector)
        tracing = Tracing(endpoint=collector.endpoint, sampling_percent=0)
        spec = build_spec(
            build_group("model", runtime="Triton"), gateway=build_gateway(tracing=tracing)
        )
        endpoint = build_endpoint(
            address="127.0.0.1", http_port=ports["http"], grpc_port=ports["grpc"]
        )
        async with (
            run_gateway(spec, build_state([endpoint], group="model")),
            open_session(spec.gateway.http_port) as session,
        ):
            for headers in ({}, {}, TRACED):
                async with session.post(
                    "/v2/models/add/infer",
                    data=json.dumps({"inputs": TENSORS}),
                    headers=headers,
                ) as reply:
                    assert reply.status == 200, await reply.text()
            found = await traces.wait_for(1, frozenset({GATEWAY, SERVER}))
        process.stop()
        found = traces.read()  # all of it is sent
    assert found.keys() == {TRACE}
    [compute] = [each for each in found[TRACE] if each.name == "compute"]
    names = [(each.service, each.name) for each in list_ancestors(compute, found[TRACE])]
    assert names[:2] == [(SERVER, "add"), (SERVER, "InferRequest")]
    assert names[-1] == (GATEWAY, "ingress")
