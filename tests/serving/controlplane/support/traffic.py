"""Requests through a gateway, and steady traffic that counts what fails."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import grpc.aio

from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub


@contextlib.asynccontextmanager
async def open_stub(port: int) -> AsyncGenerator[GRPCInferenceServiceStub]:
    """A client of the gateway's gRPC port, which does not retry by itself."""
    options = [
        ("grpc.enable_retries", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield GRPCInferenceServiceStub(channel)


@contextlib.asynccontextmanager
async def open_session(port: int) -> AsyncGenerator[aiohttp.ClientSession]:
    """A client of the gateway's HTTP port."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session


def infer(model: str = "add", body: bytes = b"") -> pb.ModelInferRequest:
    """A request, with a tensor of these bytes."""
    return pb.ModelInferRequest(model_name=model, raw_input_contents=[body] if body else [])


@dataclass
class Traffic:
    """What became of the requests of some clients."""

    served: Counter[str] = field(default_factory=Counter[str])
    """Answers, by server."""
    errors: list[str] = field(default_factory=list[str])

    async def wait_for(self, requests: int) -> None:
        """Wait until so many more requests were answered."""
        wanted = self.served.total() + requests
        async with asyncio.timeout(20):
            while self.served.total() < wanted:
                await asyncio.sleep(0.005)

    async def wait_for_server(self, name: str) -> None:
        """Wait until a server answered a further request."""
        wanted = self.served[name] + 1
        async with asyncio.timeout(10):
            while self.served[name] < wanted:
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def steady_traffic(
    grpc_port: int,
    *,
    clients: int = 4,
    pause: float = 0.002,
    model: str = "add",
    metadata: tuple[tuple[str, str], ...] = (),
) -> AsyncGenerator[Traffic]:
    """Clients that send one request after another."""
    traffic = Traffic()

    async def send() -> None:
        async with open_stub(grpc_port) as stub:
            while True:
                try:
                    answer = await stub.model_infer(infer(model), timeout=10, metadata=metadata)
                    traffic.served[answer.id] += 1
                except grpc.aio.AioRpcError as error:
                    traffic.errors.append(f"{error.code().name}: {error.details()}")
                await asyncio.sleep(pause)

    tasks = [asyncio.create_task(send()) for _ in range(clients)]
    try:
        yield traffic
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
