"""An operator that crashes after a number of writes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from kilonova.api.grove import names
from kilonova.kube import Client, Manager, Runnable, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import LoopClock


def is_write(request: Request) -> bool:
    """Whether a request is a write; events do not count."""
    return request.method != "GET" and not request.path.endswith("/events")


def restarts_clique(request: Request) -> bool:
    """Whether a request restarts a clique."""
    return request.method == "PATCH" and names.INCARNATION.encode() in request.body


class BuiltControllers(Protocol):
    """What a manager runs."""

    @property
    def runnables(self) -> Sequence[Runnable]: ...
    @property
    def leader_runnables(self) -> Sequence[Runnable]: ...


class CrashingTransport(Transport):
    """Forwards so many writes, then nothing: `died` is set, and further requests never return."""

    def __init__(
        self,
        inner: Transport,
        writes: int,
        *,
        last_write_arrives: bool,
        counts_as_write: Callable[[Request], bool],
    ) -> None:
        self.crashed = asyncio.Event()
        self._inner = inner
        self._remaining_writes = writes
        self._counts_as_write = counts_as_write
        self._last_write_arrives = last_write_arrives

    async def send(self, request: Request) -> Reply:
        if self.crashed.is_set():
            await asyncio.Event().wait()
        if not self._counts_as_write(request):
            return await self._inner.send(request)
        self._remaining_writes -= 1
        if self._remaining_writes > 0:
            return await self._inner.send(request)
        self.crashed.set()
        if self._last_write_arrives:
            await self._inner.send(request)
        await asyncio.Event().wait()
        raise AssertionError("unreachable: it never returns")

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def crashing_operator(
    cluster: EmbeddedCluster,
    writes: int,
    *,
    last_write_arrives: bool,
    counts_as_write: Callable[[Request], bool] = is_write,
    settings: OperatorSettings | None = None,
) -> AsyncGenerator[asyncio.Event]:
    """An operator that crashes at its last write, which is applied or lost; yields an event that is
    set then.
    """

    def build(client: Client, clock: LoopClock) -> BuiltControllers:
        return build_operator(
            client, settings or OperatorSettings(), now=clock.now, monotonic=clock.monotonic
        )

    async with crashing_controllers(
        cluster,
        "operator",
        build,
        writes,
        last_write_arrives=last_write_arrives,
        counts_as_write=counts_as_write,
    ) as crashed:
        yield crashed


@asynccontextmanager
async def crashing_controllers(
    cluster: EmbeddedCluster,
    field_manager: str,
    build: Callable[[Client, LoopClock], BuiltControllers],
    writes: int,
    *,
    last_write_arrives: bool,
    counts_as_write: Callable[[Request], bool] = is_write,
) -> AsyncGenerator[asyncio.Event]:
    """Controllers that crash at their last write, which is applied or lost; yields an event that is
    set then.
    """
    inner = cluster.client(field_manager)._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
    transport = CrashingTransport(
        inner, writes, last_write_arrives=last_write_arrives, counts_as_write=counts_as_write
    )
    built = build(Client(transport, field_manager=field_manager), LoopClock())
    manager = Manager()
    manager.add(*built.runnables)
    manager.add_leader_runnables(*built.leader_runnables)
    run = asyncio.create_task(manager.run(signals=False))
    try:
        yield transport.crashed
    finally:
        run.cancel()
        await asyncio.wait({run})
