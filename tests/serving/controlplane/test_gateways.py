"""Real gateways on the control plane: what changes in the cluster, and what clients see of it."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from kilonova.kube.serving.certificate_sources import FolderSource
from kilonova.serving.gateway.control_plane_calls import derive_call_token
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from tests.serving.controlplane.support.control_plane_cluster import (
    KEY,
    TOKEN,
    control_plane_cluster,
    group_of,
    scaled_from_zero,
)
from tests.serving.controlplane.support.model_servers import Ports
from tests.serving.controlplane.support.traffic import (
    infer,
    open_session,
    open_stub,
    steady_traffic,
)


async def test_gateway_serves_what_the_objects_say() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        async with open_stub(cluster.grpc_port) as stub:
            answer = await stub.model_infer(infer(), timeout=5)
        assert answer.id == "web-main-0"
        assert cluster.read_metric("kilonova_serving_connected_gateways") == 1
        assert cluster.read_metric("kilonova_serving_pushes_total", type="Listener") == 1


async def test_ready_server_gets_requests_within_milliseconds() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports, replicas=2))
        await cluster.start_server("web-main-0", ports)
        second = await cluster.start_server("web-main-1", ports, group="other")
        await cluster.start_gateway()
        await cluster.delete_pod("web-main-1", grace=0)
        async with steady_traffic(cluster.grpc_port) as traffic:
            await traffic.wait_for(20)
            delays: list[float] = []
            for _ in range(5):
                await cluster.add_pod(second, ready=False)
                await traffic.wait_for(5)
                assert not traffic.served["web-main-1"]
                started = time.perf_counter()
                await cluster.set_pod_status("web-main-1", ready=True, ip=second.address)
                await traffic.wait_for_server("web-main-1")
                delays.append(time.perf_counter() - started)
                await cluster.delete_pod("web-main-1", grace=0)
                await traffic.wait_for(20)
                traffic.served["web-main-1"] = 0
    assert traffic.errors == []
    pushes = cluster.read_metric("kilonova_serving_push_seconds_count")
    fast = cluster.read_metric("kilonova_serving_push_seconds_bucket", le="0.05")
    # Some milliseconds on a quiet machine; part of it is the pause of clients between requests.
    assert sorted(delays)[2] < 0.1
    assert pushes > 5
    assert fast > pushes / 2


async def test_no_request_fails_while_servers_come_and_go() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports, replicas=2))
        await cluster.start_server("web-main-0", ports, delay=0.005)
        await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port, clients=8) as traffic:
            for number in range(1, 6):
                await cluster.start_server(f"web-main-{number}", ports, delay=0.005)
                await traffic.wait_for_server(f"web-main-{number}")
                await cluster.delete_pod(f"web-main-{number - 1}")
                await traffic.wait_for(30)
                gone = traffic.served[f"web-main-{number - 1}"]
                await traffic.wait_for(30)
                assert traffic.served[f"web-main-{number - 1}"] == gone
                await cluster.delete_pod(f"web-main-{number - 1}", grace=0)
    assert traffic.errors == []


async def test_no_request_fails_while_routes_and_clusters_change() -> None:
    async with control_plane_cluster() as cluster:
        blue, green = Ports(), Ports()
        await cluster.create_service(group_of(blue, "blue"))
        await cluster.start_server("web-blue-0", blue, group="blue")
        await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port, clients=8) as traffic:
            await traffic.wait_for(20)
            await cluster.start_server("web-green-0", green, group="green")
            for _ in range(3):
                await cluster.patch_service({"servers": [group_of(green, "green")]})
                await traffic.wait_for_server("web-green-0")
                await cluster.patch_service({"servers": [group_of(blue, "blue")]})
                await traffic.wait_for_server("web-blue-0")
    assert traffic.errors == []


async def test_no_request_fails_while_routes_by_model_come_and_go() -> None:
    async with control_plane_cluster() as cluster:
        blue, green = Ports(), Ports()
        groups = [group_of(blue, "blue"), group_of(green, "green")]
        await cluster.create_service(*groups)
        await cluster.start_server("web-blue-0", blue, group="blue")
        await cluster.start_server("web-green-0", green, group="green")
        await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port, clients=8) as traffic:
            for _ in range(3):
                await traffic.wait_for_server("web-blue-0")
                route = {"models": ["add"], "backends": [{"server": "green"}]}
                await cluster.patch_service({"routes": [route]})
                await traffic.wait_for_server("web-green-0")
                await cluster.patch_service({"routes": None})
    assert traffic.errors == []


async def test_servers_are_followed_while_the_policy_of_their_cluster_changes() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        async with steady_traffic(cluster.grpc_port) as traffic:
            for number, policy in enumerate(("RoundRobin", "Random", "LeastRequest"), 1):
                await traffic.wait_for(20)
                await cluster.patch_service({"gateway": {"loadBalancing": {"policy": policy}}})
                await traffic.wait_for(20)
                await cluster.start_server(f"web-main-{number}", ports)
                await traffic.wait_for_server(f"web-main-{number}")
                await cluster.delete_pod(f"web-main-{number - 1}", grace=0)
                await traffic.wait_for(20)
    assert traffic.errors == []


async def test_restart_of_the_control_plane_disturbs_no_request() -> None:
    async with control_plane_cluster(running=False) as cluster:
        ports = Ports()
        async with cluster.run_control_plane():
            await cluster.create_service(group_of(ports, replicas=2))
            await cluster.start_server("web-main-0", ports)
            gateway = await cluster.start_gateway()
            listeners = await gateway.read_stat("listener_manager.lds.update_success")
        async with steady_traffic(cluster.grpc_port) as traffic:
            await traffic.wait_for(50)
            await cluster.start_server("web-main-1", ports)
            await traffic.wait_for(50)
            assert not traffic.served["web-main-1"]
            for killed in (True, False):
                async with cluster.run_control_plane(killed=killed):
                    await cluster.wait_until_connected()
                    await traffic.wait_for_server("web-main-1")
        # The same content is not sent again.
        assert await gateway.read_stat("listener_manager.lds.update_success") == listeners
        assert await gateway.read_stat("listener_manager.listener_modified") == 0
    assert traffic.errors == []


async def test_gateway_with_a_wrong_token_gets_nothing() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports)
        # A model server may see the token of calls.
        await cluster.start_gateway(token=derive_call_token(TOKEN), ready=False)
        async with asyncio.timeout(10):
            while not cluster.read_metric("kilonova_serving_refused_gateways_total"):
                await asyncio.sleep(0.01)
        assert cluster.control_plane is not None
        assert cluster.control_plane.configurations.count_connected(("default", "web")) == 0
        assert cluster.read_metric("kilonova_serving_pushes_total", type="Cluster") == 0


async def test_control_plane_is_served_over_tls(tmp_path: Path) -> None:
    certificates = FolderSource(tmp_path, ["127.0.0.1"])
    async with control_plane_cluster(certificates=certificates) as cluster:
        ports = Ports()
        await cluster.create_service(scaled_from_zero(ports))
        await cluster.start_gateway()
        assert cluster.address.ca.startswith("-----BEGIN CERTIFICATE-----")
        async with (
            open_stub(cluster.grpc_port) as stub,
            open_session(cluster.http_port) as session,
        ):
            # ADS, a hold, and an answer over HTTP.
            asked = asyncio.create_task(_infer(stub))
            await cluster.start_server("web-main-0", ports)
            assert await asked == "web-main-0"
            async with session.post("/v2/repository/index") as response:
                assert [each["name"] for each in await response.json()] == ["add"]


async def test_rejected_configuration_is_a_problem_of_the_service() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports)
        await cluster.start_gateway()
        assert cluster.control_plane is not None
        configurations = cluster.control_plane.configurations
        assert configurations.list_problems(("default", "web")) == ()
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            await cluster.patch_service({"gateway": {"httpPort": port}})
            async with asyncio.timeout(10):
                while not configurations.list_problems(("default", "web")):
                    await asyncio.sleep(0.01)
            (problem,) = configurations.list_problems(("default", "web"))
            assert problem.startswith("gateway web-gateway-0 rejected Listener: ")
            assert str(port) in problem
            assert cluster.read_metric("kilonova_serving_rejections_total", type="Listener") == 1
            async with open_stub(cluster.grpc_port) as stub:
                assert (await stub.model_infer(infer(), timeout=5)).id == "web-main-0"
        await cluster.patch_service({"gateway": {"httpPort": cluster.http_port}})
        async with asyncio.timeout(10):
            while configurations.list_problems(("default", "web")):
                await asyncio.sleep(0.01)


async def test_configuration_that_cannot_be_built_is_tried_again_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such a service was not validated."""
    provider = {"name": "a", "issuer": "i", "jwksUri": "https://issuer.example:99999/keys"}
    async with control_plane_cluster() as cluster:
        assert cluster.control_plane is not None
        configurations = cluster.control_plane.configurations
        await cluster.create_service(group_of(Ports()), auth={"jwt": [provider]})
        async with asyncio.timeout(10):
            while not configurations.list_problems(KEY):
                await asyncio.sleep(0.01)
        (problem,) = configurations.list_problems(KEY)
        assert problem.startswith("the configuration could not be built: Port out of range")
        for number in range(10):
            await cluster.annotate_service(str(number))
            await asyncio.sleep(0.02)
        told = [each for each in caplog.messages if each == "configuration not built"]
        assert len(told) == 1
        await cluster.patch_service({"auth": None})
        async with asyncio.timeout(10):
            while configurations.list_problems(KEY):
                await asyncio.sleep(0.01)


async def test_gateway_that_is_deleted_drains() -> None:
    async with control_plane_cluster() as cluster:
        ports = Ports()
        await cluster.create_service(group_of(ports))
        await cluster.start_server("web-main-0", ports, delay=1.5)
        await cluster.add_gateway_pod("web-gateway-0")
        await cluster.start_gateway("web-gateway-0")
        async with open_stub(cluster.grpc_port) as stub:
            in_flight = asyncio.create_task(_infer(stub))
            await asyncio.sleep(0.05)
            await cluster.delete_pod("web-gateway-0")
            await _wait_until_refused(cluster.grpc_port)
            assert not in_flight.done()
            assert await in_flight == "web-main-0"


async def _infer(stub: GRPCInferenceServiceStub) -> str:
    return (await stub.model_infer(infer(), timeout=10)).id


async def _wait_until_refused(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.01)
