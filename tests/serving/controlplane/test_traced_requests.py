"""Traced requests in the status of a service, from real gateways."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio
import msgspec
import pytest

from kilonova.api.serving import TracedRequest
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from tests.serving.controlplane.support.control_plane_cluster import (
    SERVICES,
    ControlPlaneCluster,
    control_plane_cluster,
    group_of,
)
from tests.serving.controlplane.support.model_servers import Ports
from tests.serving.controlplane.support.traffic import infer, open_session, open_stub

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture
async def cluster() -> AsyncGenerator[ControlPlaneCluster]:
    async with control_plane_cluster() as cluster:
        yield cluster


async def create_service(cluster: ControlPlaneCluster, ports: Ports, percent: float) -> None:
    # Nobody listens at the collector: the log does not depend on it.
    tracing = {"endpoint": "127.0.0.1:1", "samplingPercent": percent}
    await cluster.create_service(group_of(ports), gateway={"tracing": tracing})


async def read_traces(cluster: ControlPlaneCluster) -> list[TracedRequest]:
    service = await cluster.client.get(SERVICES, "web", "default")
    found: Any = service.get("status", {}).get("traces", [])
    return msgspec.convert(found, list[TracedRequest])


async def wait_for_traces(cluster: ControlPlaneCluster, number: int) -> list[TracedRequest]:
    async with asyncio.timeout(15):
        while len(found := await read_traces(cluster)) < number:
            await asyncio.sleep(0.05)
    return found


async def wait_for_error(stub: GRPCInferenceServiceStub) -> grpc.StatusCode:
    """The status of the first request that fails."""
    async with asyncio.timeout(10):
        while True:
            try:
                await stub.model_infer(infer())
            except grpc.aio.AioRpcError as error:
                return error.code()


async def test_slow_and_failed_requests_are_in_the_status(cluster: ControlPlaneCluster) -> None:
    ports = Ports()
    await create_service(cluster, ports, 100)
    server = await cluster.start_server("web-main-0", ports, delay=0.2)
    await cluster.start_gateway()
    async with open_stub(cluster.grpc_port) as stub, open_session(cluster.http_port) as session:
        await stub.model_infer(infer(), metadata=tuple(TRACED.items()))
        async with session.post("/v2/models/add/infer?access_token=secret") as reply:
            assert reply.status == 200
        await cluster.scale(0)
        await cluster.delete_pod(server.name, grace=0)
        assert await wait_for_error(stub) is grpc.StatusCode.UNAVAILABLE
    found = await wait_for_traces(cluster, 3)
    failed = found[0]
    assert (failed.request, failed.status) == ("gRPC ModelInfer", "UNAVAILABLE")
    assert len(failed.trace_id) == 32
    over_grpc = next(each for each in found if each.trace_id == TRACE)
    assert (over_grpc.request, over_grpc.status) == ("gRPC ModelInfer", "OK")
    over_http = next(each for each in found if each.model == "add")
    assert (over_http.request, over_http.status) == ("POST /v2/models/add/infer", "200")
    for each in (over_grpc, over_http):
        assert each.group == "main"
        assert each.server_time is not None
        assert each.first_byte is not None
        assert 190 < each.server_time <= each.duration
        assert 190 < each.first_byte <= each.duration


async def test_only_traced_requests_are_told(cluster: ControlPlaneCluster) -> None:
    ports = Ports()
    await create_service(cluster, ports, 0)
    await cluster.start_server("web-main-0", ports)
    await cluster.start_gateway()
    async with open_session(cluster.http_port) as session:
        untraced = {"traceparent": TRACED["traceparent"][:-2] + "00"}
        for headers in ({}, untraced, TRACED):
            async with session.post("/v2/models/add/infer", headers=headers) as reply:
                assert reply.status == 200
    found = await wait_for_traces(cluster, 1)
    assert [each.trace_id for each in found] == [TRACE]
    await cluster.patch_service({"gateway": {"tracing": None}})
    async with asyncio.timeout(10):
        while await read_traces(cluster):
            await asyncio.sleep(0.05)


async def test_replica_keeps_what_another_one_wrote() -> None:
    ports = Ports()
    async with control_plane_cluster(running=False) as cluster:
        async with cluster.run_control_plane():
            await create_service(cluster, ports, 100)
            await cluster.start_server("web-main-0", ports)
            await cluster.start_gateway()
            await request_model(cluster, "first")
            await wait_for_traces(cluster, 1)
        # This one did not see the first request.
        async with cluster.run_control_plane():
            await cluster.wait_until_connected()
            await request_model(cluster, "second")
            found = await wait_for_traces(cluster, 2)
    assert {each.model for each in found} == {"first", "second"}


async def request_model(cluster: ControlPlaneCluster, model: str) -> None:
    async with (
        open_session(cluster.http_port) as session,
        session.post(f"/v2/models/{model}/infer") as reply,
    ):
        assert reply.status == 200


async def test_log_of_a_stranger_is_refused(cluster: ControlPlaneCluster) -> None:
    await create_service(cluster, Ports(), 100)
    await cluster.start_gateway()
    target = f"127.0.0.1:{cluster.address.port}"
    method = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"
    metadata = (("x-kilonova-service", "default/web"), ("x-kilonova-gateway-token", "wrong"))
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.stream_unary(method)(iter([b""]), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
