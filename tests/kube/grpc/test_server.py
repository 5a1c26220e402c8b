"""gRPC servers: what they serve, what they limit, how they stop."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client import CollectorRegistry

from kilonova.kube import Manager
from kilonova.kube.grpc import ClientSettings, GrpcClient, GrpcMetrics, GrpcServer, ServerLimits
from kilonova.kube.grpc.interceptor import RpcInterceptor
from tests.kube.grpc.echo import Echo, EchoReply, EchoRequest, EchoStub, serving
from tests.kube.grpc.echo_grpc import echo_service

SERVICE = "kilonova.test.v1.Echo"
ONCE = ClientSettings(attempts=1, deadline=60)
HELLO = EchoRequest(text="hello")


async def test_all_kinds_of_rpc_are_served() -> None:
    async def ask(*texts: str) -> AsyncIterator[EchoRequest]:
        for text in texts:
            yield EchoRequest(text=text)

    async with serving(Echo()) as (_, target), GrpcClient(target) as client:
        stub = client.stub(EchoStub)
        assert (await stub.say(HELLO)).text == "hello"
        repeated = stub.repeat(EchoRequest(text="a", count=3))
        assert [each.text async for each in repeated] == ["a", "a", "a"]
        assert (await stub.join(ask("a", "b"))).text == "ab"
        assert [each.text async for each in stub.talk(ask("a", "b"))] == ["a", "b"]


async def test_server_serves_on_a_unix_socket(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/echo.sock"
    async with serving(Echo(), address) as (_, target), GrpcClient(target) as client:
        assert (await client.stub(EchoStub).say(HELLO)).text == "hello"


async def test_health_follows_services_and_the_stop() -> None:
    async with serving(Echo(), grace=30) as (server, target), GrpcClient(target) as client:
        assert await check_health(client, "") == "SERVING"
        assert await check_health(client, SERVICE) == "SERVING"
        await server.health.set_serving(SERVICE, False)
        assert await check_health(client, SERVICE) == "NOT_SERVING"
        assert await check_health(client, "") == "SERVING"
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await check_health(client, "unknown")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_lists_the_services() -> None:
    async with serving(Echo()) as (_, target), GrpcClient(target) as client:
        stub: Any = client.stub(cast("Any", reflection_pb2_grpc).ServerReflectionStub)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        replies = [each async for each in stub.ServerReflectionInfo(iter([request]))]
        names = {each.name for each in replies[0].list_services_response.service}
        assert names >= {SERVICE, "grpc.health.v1.Health"}
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        replies = [each async for each in stub.ServerReflectionInfo(iter([request]))]
        assert replies[0].file_descriptor_response.file_descriptor_proto


async def test_exception_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Echo()) as (_, target), GrpcClient(target) as client:
        error = await fail(client, EchoRequest(text="fail"))
        assert (error.code(), error.details()) == (
            grpc.StatusCode.INTERNAL,
            "internal error: see the server's log",
        )
        error = await fail(client, EchoRequest(text="missing"))
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "no such thing")
    assert "RPC failed" in caplog.text
    assert "a secret" in caplog.text


async def test_unknown_method_is_unimplemented() -> None:
    async with serving(Echo()) as (_, target), grpc.aio.insecure_channel(target) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await channel.unary_unary(f"/{SERVICE}/None")(b"")
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_request_that_is_no_message_is_rejected() -> None:
    async with serving(Echo()) as (_, target), grpc.aio.insecure_channel(target) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(f"/{SERVICE}/Say")(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_large_request_is_rejected() -> None:
    limits = ServerLimits(max_request_bytes=1000)
    async with serving(Echo(), limits=limits) as (_, target), GrpcClient(target) as client:
        assert (await client.stub(EchoStub).say(EchoRequest(text="x" * 900))).text
        error = await fail(client, EchoRequest(text="x" * 1000))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_rpcs_beyond_the_limit_are_rejected() -> None:
    echo, limits = Echo(), ServerLimits(max_concurrent_rpcs=1)
    async with (
        serving(echo, limits=limits) as (_, target),
        GrpcClient(target, settings=ONCE) as client,
    ):
        first = asyncio.ensure_future(client.stub(EchoStub).say(EchoRequest(text="wait")))
        await echo.waiting.wait()
        error = await fail(client, HELLO)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        echo.release.set()
        assert (await first).text == "wait"


async def test_burst_of_rpcs_is_answered() -> None:
    limits = ServerLimits(max_concurrent_rpcs=5000, max_streams_per_connection=5000)
    async with (
        serving(Echo(), limits=limits) as (_, target),
        GrpcClient(target, settings=ONCE) as client,
    ):
        stub = client.stub(EchoStub)
        replies = await asyncio.gather(*(stub.say(HELLO) for _ in range(2500)))
    assert {each.text for each in replies} == {"hello"}


async def test_unary_rpc_has_a_time_limit_of_the_server() -> None:
    limits = ServerLimits(max_unary_seconds=0.05)
    async with (
        serving(Echo(), limits=limits) as (_, target),
        GrpcClient(target, settings=ONCE) as client,
    ):
        error = await fail(client, EchoRequest(text="wait"))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "the server's limit of 0.05 s" in (error.details() or "")


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="max_concurrent_rpcs is 0: it must be positive"):
        ServerLimits(max_concurrent_rpcs=0)


async def test_stop_lets_rpcs_finish_and_ends_streams() -> None:
    echo = Echo()
    server = GrpcServer("echo", [echo_service(echo)], "127.0.0.1:0", grace=60)
    target = f"localhost:{server.bind()}"
    running = asyncio.create_task(server.run())
    async with GrpcClient(target, settings=ONCE) as client:
        unary = asyncio.ensure_future(client.stub(EchoStub).say(EchoRequest(text="wait")))
        stream = client.stub(EchoStub).repeat(EchoRequest(text="a"))
        assert cast("EchoReply", await stream.read()).text == "a"
        await echo.waiting.wait()
        server.stop()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await read_to_end(stream)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert ended.value.details() == "the server is stopping"
        assert not unary.done()
        echo.release.set()
        assert (await unary).text == "wait"
        await running


async def test_stop_does_not_cancel_a_write() -> None:
    # gRPC cannot send the status of a stream whose first write was cancelled.
    interceptor = RpcInterceptor("echo", 60)
    handler = grpc.unary_stream_rpc_method_handler(cast("Any", Echo().repeat))

    async def find_handler(_: grpc.HandlerCallDetails) -> Any:
        return handler

    details = cast("grpc.HandlerCallDetails", SimpleNamespace(method=f"/{SERVICE}/Repeat"))
    wrapped: Any = await interceptor.intercept_service(find_handler, details)
    context = SlowContext()
    stream = asyncio.create_task(wrapped.unary_stream(EchoRequest(text="a"), context))
    await context.writing.wait()
    interceptor.end_streams()
    await asyncio.sleep(0)
    assert not stream.done()
    context.release.set()
    with pytest.raises(grpc.aio.AbortError):
        await stream
    assert context.written == ["a"]
    assert context.aborted == (grpc.StatusCode.UNAVAILABLE, "the server is stopping")


class SlowContext:
    """gRPC's side of a stream; a write ends when the test says so."""

    def __init__(self) -> None:
        self.writing = asyncio.Event()
        self.release = asyncio.Event()
        self.written: list[str] = []
        self.aborted: tuple[grpc.StatusCode, str] | None = None

    async def write(self, reply: EchoReply) -> None:
        self.writing.set()
        await self.release.wait()
        self.written.append(reply.text)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = (code, details)
        raise grpc.aio.AbortError

    def code(self) -> grpc.StatusCode:
        assert self.aborted is not None
        return self.aborted[0]


async def test_server_is_a_runnable_of_a_manager() -> None:
    manager = Manager(grace=30)
    server = GrpcServer("echo", [echo_service(Echo())], "127.0.0.1:0")
    manager.add(server)
    target = f"localhost:{server.bind()}"
    running = asyncio.create_task(manager.run(signals=False))
    async with GrpcClient(target) as client:
        assert (await client.stub(EchoStub).say(HELLO, wait_for_ready=True)).text == "hello"
        manager.stop()
        await running


async def test_port_in_use_is_an_os_error() -> None:
    async with serving(Echo()) as (server, _):
        port = server.bind()
        second = GrpcServer("echo", [echo_service(Echo())], f"127.0.0.1:{port}")
        with pytest.raises(OSError, match="in use"):
            second.bind()


async def test_rpcs_are_counted_by_status() -> None:
    registry = CollectorRegistry()
    metrics = GrpcMetrics(registry)
    async with serving(Echo(), metrics=metrics) as (_, target), GrpcClient(target) as client:
        await client.stub(EchoStub).say(HELLO)
        await fail(client, EchoRequest(text="missing"))
        _ = [each async for each in client.stub(EchoStub).repeat(EchoRequest(count=2))]
    kind = {"grpc_service": SERVICE, "grpc_method": "Say", "grpc_type": "unary"}
    handled = "grpc_server_handled_total"
    assert registry.get_sample_value(handled, kind | {"grpc_code": "OK"}) == 1
    assert registry.get_sample_value(handled, kind | {"grpc_code": "NotFound"}) == 1
    assert registry.get_sample_value("grpc_server_started_total", kind) == 2
    assert registry.get_sample_value("grpc_server_handling_seconds_count", kind) == 2
    stream = {"grpc_service": SERVICE, "grpc_method": "Repeat", "grpc_type": "server_stream"}
    assert registry.get_sample_value(handled, stream | {"grpc_code": "OK"}) == 1


async def read_to_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def check_health(client: GrpcClient, service: str) -> str:
    stub: Any = client.stub(cast("Any", health_pb2_grpc).HealthStub)
    reply = await stub.Check(health_pb2.HealthCheckRequest(service=service), wait_for_ready=True)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)


async def fail(client: GrpcClient, request: EchoRequest) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client.stub(EchoStub).say(request)
    return error.value
