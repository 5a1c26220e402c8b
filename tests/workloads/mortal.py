"""An operator that dies in the middle of what it does."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.grove import names
from kilonova.kube import Client, Manager, Transport
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import LoopClock


def is_write(request: Request) -> bool:
    """Whether a request changes something; events do not count."""
    return request.method != "GET" and not request.path.endswith("/events")


def starts_anew(request: Request) -> bool:
    """Whether a request starts a clique anew."""
    return request.method == "PATCH" and names.INCARNATION.encode() in request.body


class Mortal(Transport):
    """Carries so many writes, then nothing more: `died` is set, and who asks waits for ever."""

    def __init__(
        self,
        inner: Transport,
        writes: int,
        *,
        last_arrives: bool,
        counts: Callable[[Request], bool],
    ) -> None:
        self.died = asyncio.Event()
        self._inner = inner
        self._left = writes
        self._counts = counts
        self._last_arrives = last_arrives

    async def send(self, request: Request) -> Reply:
        if self.died.is_set():
            await asyncio.Event().wait()
        if not self._counts(request):
            return await self._inner.send(request)
        self._left -= 1
        if self._left > 0:
            return await self._inner.send(request)
        self.died.set()
        if self._last_arrives:
            await self._inner.send(request)
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def mortal_operator(
    cluster: Cluster,
    writes: int,
    *,
    last_arrives: bool,
    counts: Callable[[Request], bool] = is_write,
    settings: Settings | None = None,
) -> AsyncGenerator[asyncio.Event]:
    """An operator that dies at its last write, which arrives or is lost; set when it has."""
    clock = LoopClock()
    inner = cluster.client("operator")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
    transport = Mortal(inner, writes, last_arrives=last_arrives, counts=counts)
    client = Client(transport, field_manager="operator")
    operator = build_operator(
        client, settings or Settings(), now=clock.now, monotonic=clock.monotonic
    )
    manager = Manager()
    manager.add(*operator.parts)
    manager.add_leading(*operator.leading)
    run = asyncio.create_task(manager.run(signals=False))
    try:
        yield transport.died
    finally:
        run.cancel()
        await asyncio.wait({run})
