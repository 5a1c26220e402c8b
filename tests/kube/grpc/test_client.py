"""gRPC clients: deadlines, retries, one channel."""

import grpc
import grpc.aio
import pytest

from kilonova.kube.grpc import ClientSettings, GrpcClient
from tests.kube.grpc.echo import Echo, EchoRequest, EchoStub, serving

HELLO = EchoRequest(text="hello")


async def test_unavailable_rpc_is_repeated() -> None:
    echo = Echo()
    echo.unavailable = 2
    settings = ClientSettings(initial_backoff=0.01, deadline=60)
    async with serving(echo) as (_, target), GrpcClient(target, settings=settings) as client:
        assert (await client.stub(EchoStub).say(HELLO)).text == "hello"
    assert echo.calls == 3


async def test_rpc_is_not_repeated_where_one_attempt_is_set() -> None:
    echo = Echo()
    echo.unavailable = 1
    settings = ClientSettings(attempts=1, deadline=60)
    async with serving(echo) as (_, target), GrpcClient(target, settings=settings) as client:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.stub(EchoStub).say(HELLO)
    assert (error.value.code(), echo.calls) == (grpc.StatusCode.UNAVAILABLE, 1)


async def test_other_errors_are_not_repeated() -> None:
    echo = Echo()
    async with serving(echo) as (_, target), GrpcClient(target) as client:
        with pytest.raises(grpc.aio.AioRpcError):
            await client.stub(EchoStub).say(EchoRequest(text="missing"))
    assert echo.calls == 1


async def test_rpc_without_a_timeout_has_the_default_deadline() -> None:
    echo, settings = Echo(), ClientSettings(deadline=1000)
    async with serving(echo) as (_, target), GrpcClient(target, settings=settings) as client:
        await client.stub(EchoStub).say(HELLO)
        assert 500 < echo.seconds_left < 1100  # gRPC rounds it
        await client.stub(EchoStub).say(HELLO, timeout=3000)
        assert 2000 < echo.seconds_left < 3300


async def test_rpc_ends_at_its_deadline() -> None:
    echo, settings = Echo(), ClientSettings(deadline=0.1)
    async with serving(echo) as (_, target), GrpcClient(target, settings=settings) as client:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.stub(EchoStub).say(EchoRequest(text="wait"))
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_stubs_share_a_channel() -> None:
    async with serving(Echo()) as (_, target), GrpcClient(target) as client:
        first = client.stub(EchoStub)
        assert client.stub(EchoStub) is first
        assert client.stub(lambda channel: channel) is client.stub(lambda channel: channel)


async def test_server_that_does_not_run_is_unavailable() -> None:
    settings = ClientSettings(attempts=1, deadline=60)
    async with GrpcClient("localhost:9", settings=settings) as client:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.stub(EchoStub).say(HELLO)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
