"""Requests that arrive at a real gateway when a group has no server."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import grpc.aio
import pytest

from kilonova.serving.grpc import inference_pb2 as pb
from tests.local.embedded_cluster import wait_for_condition
from tests.serving.controlplane.support.control_plane_cluster import (
    KEY,
    ControlPlaneCluster,
    control_plane_cluster,
    group_of,
    scaled_from_zero,
)
from tests.serving.controlplane.support.model_servers import Ports, run_model_server
from tests.serving.controlplane.support.traffic import (
    cancel_all,
    infer,
    open_session,
    open_stub,
    steady_traffic,
)

_MEGABYTES = 1 << 20


async def test_requests_of_both_protocols_are_answered_by_the_first_server() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports))
        await cluster.start_gateway()
        woken: list[tuple[str, str]] = []
        assert cluster.control_plane is not None
        cluster.control_plane.held.add_listener(woken.append)
        async with (
            open_stub(cluster.grpc_port) as stub,
            open_session(cluster.http_port) as session,
        ):
            small = asyncio.create_task(_infer(stub))
            large = asyncio.create_task(_infer(stub, bytes(20 * _MEGABYTES)))
            post = asyncio.create_task(_post(session, bytes(20 * _MEGABYTES)))
            await _wait_for_held(cluster, 3)
            assert woken == [KEY]
            await cluster.scale(1)
            await cluster.start_server("web-main-0", ports)
            assert (await small).id == "web-main-0"
            assert (await large).model_version == str(20 * _MEGABYTES)
            assert await post == ("web-main-0", 20 * _MEGABYTES)
        assert cluster.control_plane.held.count(KEY, "main") == 0
        assert cluster.read_metric("kilonova_serving_holds_total", outcome="ready") == 3


async def test_a_thousand_requests_wait_for_the_first_server() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports, maxHeld=2000))
        gateway = await cluster.start_gateway()
        async with AsyncExitStack() as stack:
            opened = [open_stub(cluster.grpc_port) for _ in range(12)]
            stubs = [await stack.enter_async_context(each) for each in opened]
            # All at once: gRPC by itself would refuse some.
            held = [asyncio.create_task(_infer(stub)) for stub in stubs for _ in range(100)]
            await _wait_for_held(cluster, 1200)
            # Longer than Envoy takes for one that is to be asked again.
            await asyncio.sleep(2.5)
            await cluster.start_server("web-main-0", ports)
            answers = await asyncio.gather(*held)
        assert [each.id for each in answers] == ["web-main-0"] * 1200
        assert await gateway.read_stat("cluster.hold/main.upstream_rq_total") == 1200


async def test_no_request_is_held_once_the_group_has_a_server() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports))
        await cluster.start_server("web-main-0", ports)
        gateway = await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port) as traffic:
            await traffic.wait_for(20)
        assert traffic.errors == []
        assert await gateway.read_stat("cluster.hold/main.upstream_rq_total") == 0


async def test_no_request_fails_on_the_way_to_zero_and_back() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports))
        server = await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port, clients=8) as traffic:
            for _ in range(3):
                await traffic.wait_for(30)
                await cluster.delete_pod("web-main-0")
                await _wait_for_held(cluster, 8)
                await cluster.delete_pod("web-main-0", grace=0)
                await cluster.add_pod(server)
            await traffic.wait_for(30)
    assert traffic.errors == []


@pytest.mark.parametrize("killed", [False, True])
async def test_held_requests_outlive_a_restart_of_the_control_plane(killed: bool) -> None:
    async with control_plane_cluster(running=False) as cluster:
        ports = Ports()
        async with open_stub(cluster.grpc_port) as stub:
            async with cluster.run_control_plane(killed=killed):
                await cluster.create_service(scaled_from_zero(ports))
                await cluster.start_gateway()
                held = asyncio.create_task(_infer(stub))
                await _wait_for_held(cluster, 1)
            async with cluster.run_control_plane():
                await _wait_for_held(cluster, 1)
                await cluster.start_server("web-main-0", ports)
                assert (await held).id == "web-main-0"


async def test_request_for_a_model_on_demand_waits_until_a_server_has_loaded_it() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        placement = {"models": [{"name": "add"}, {"name": "bert", "minCopies": 0}]}
        await cluster.create_service(group_of(ports, modelPlacement=placement))
        server = await cluster.stack.enter_async_context(run_model_server("web-main-0", ports))
        loaded = "serving.kilonova.dev/loaded-models"
        await cluster.add_pod(server, annotations={loaded: '["add"]'})
        await cluster.start_gateway()
        assert cluster.control_plane is not None
        held = cluster.control_plane.held
        async with open_stub(cluster.grpc_port) as stub:
            assert (await stub.model_infer(infer("add"), timeout=5)).id == "web-main-0"
            waiting = asyncio.ensure_future(stub.model_infer(infer("bert"), timeout=10))
            await _wait_for_held(cluster, 1)
            assert held.requested(KEY, "main") == {"bert"}
            await cluster.annotate_pod("web-main-0", {loaded: '["add", "bert"]'})
            assert (await waiting).id == "web-main-0"
        assert held.requested(KEY, "main") == frozenset()


async def test_client_that_gives_up_is_no_longer_held() -> None:
    async with control_plane_cluster() as cluster:
        await cluster.create_service(scaled_from_zero(Ports()))
        await cluster.start_gateway()
        async with (
            open_stub(cluster.grpc_port) as stub,
            open_session(cluster.http_port) as session,
        ):
            tasks: list[asyncio.Task[object]] = [
                asyncio.create_task(_infer(stub)),
                asyncio.create_task(_post(session, b"{}")),
            ]
            await _wait_for_held(cluster, 2)
            await cancel_all(tasks)
            await _wait_for_held(cluster, 0)
        assert cluster.read_metric("kilonova_serving_held_requests") == 0


async def test_too_many_held_requests_are_refused_as_exhausted() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports, maxHeld=2))
        await cluster.start_gateway()
        async with (
            open_stub(cluster.grpc_port) as stub,
            open_session(cluster.http_port) as session,
        ):
            held = [asyncio.create_task(_infer(stub)) for _ in range(2)]
            await _wait_for_held(cluster, 2)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await _infer(stub)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.value.details() == "too many requests wait for a server of group main"
            async with session.post("/v2/models/add/infer", json={}) as response:
                assert response.status == 429
                assert response.headers["retry-after"] == "5"
            await cluster.start_server("web-main-0", ports)
            assert [(await each).id for each in held] == ["web-main-0"] * 2


async def test_request_without_a_server_in_time_is_refused_as_unavailable() -> None:
    async with control_plane_cluster() as cluster:
        await cluster.create_service(scaled_from_zero(Ports(), holdTimeout="200ms"))
        await cluster.start_gateway()
        async with (
            open_stub(cluster.grpc_port) as stub,
            open_session(cluster.http_port) as session,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await _infer(stub)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert refused.value.details() == "no server of group main became ready in time"
            async with session.post("/v2/models/add/infer", json={}) as response:
                assert response.status == 503
                assert response.headers["retry-after"] == "5"


async def _infer(stub, body: bytes = b"") -> pb.ModelInferResponse:
    return await stub.model_infer(infer(body=body), timeout=20)


async def _post(session, body: bytes) -> tuple[str, int]:
    async with session.post("/v2/models/add/infer", data=body) as response:
        return await response.text(), int(response.headers["x-body-bytes"])


async def _wait_for_held(cluster: ControlPlaneCluster, number: int) -> None:
    async def are_held() -> bool:
        assert cluster.control_plane is not None
        return cluster.control_plane.held.count(KEY, "main") == number

    await wait_for_condition(are_held, within=10, every=0.01)
