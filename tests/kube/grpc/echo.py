"""The echo service, and servers of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
import grpc.aio

from kilonova.kube.grpc import GrpcServer
from tests.kube.grpc.echo_grpc import EchoServicer, EchoStub, echo_service
from tests.kube.grpc.echo_pb2 import EchoReply, EchoRequest

Context: TypeAlias = "grpc.aio.ServicerContext[EchoRequest, EchoReply]"


class Echo(EchoServicer):
    """Echoes; some texts are commands."""

    def __init__(self) -> None:
        self.calls = 0
        self.unavailable = 0
        """How many calls to answer with UNAVAILABLE."""
        self.waiting = asyncio.Event()
        self.release = asyncio.Event()
        self.identities: list[str] = []
        self.seconds_left = 0.0
        """Until the deadline of the last call of `say`."""

    async def say(self, request: EchoRequest, context: Context) -> EchoReply:
        self.calls += 1
        self.seconds_left = context.time_remaining()
        self.identities = [each.decode() for each in context.peer_identities() or ()]
        if self.unavailable:
            self.unavailable -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        if request.text == "fail":
            raise KeyError("a secret")
        if request.text == "missing":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
        if request.text == "wait":
            self.waiting.set()
            await self.release.wait()
        return EchoReply(text=request.text)

    async def repeat(self, request: EchoRequest, context: Context) -> AsyncIterator[EchoReply]:
        count = 0
        while not request.count or count < request.count:
            count += 1
            yield EchoReply(text=request.text)
            if not request.count:
                await asyncio.sleep(0.01)

    async def join(self, requests: AsyncIterator[EchoRequest], context: Context) -> EchoReply:
        return EchoReply(text="".join([each.text async for each in requests]))

    async def talk(
        self, requests: AsyncIterator[EchoRequest], context: Context
    ) -> AsyncIterator[EchoReply]:
        async for each in requests:
            yield EchoReply(text=each.text)


@asynccontextmanager
async def serving(
    echo: Echo, address: str = "127.0.0.1:0", **options: Any
) -> AsyncGenerator[tuple[GrpcServer, str]]:
    """A running server and its target."""
    server = GrpcServer("echo", [echo_service(echo)], address, **options)
    port = server.bind()
    running = asyncio.create_task(server.run())
    target = address if address.startswith("unix:") else f"localhost:{port}"
    try:
        yield server, target
    finally:
        server.stop()
        await running


__all__ = ["Echo", "EchoReply", "EchoRequest", "EchoStub", "serving"]
