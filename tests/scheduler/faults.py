"""Schedulers that die, and what must hold of a cluster whatever happens to them."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client, ConnectionFailed, Manager, Transport
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import NODES, PODS, LoopClock, eventually, settle
from tests.scheduler.scheduling import (
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    scheduler_on,
)
from tests.workloads.mortal import Mortal, is_write


def transport_of(cluster: Cluster) -> Transport:
    """How a scheduler in this process reaches a cluster."""
    return cluster.client("scheduler")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process


@asynccontextmanager
async def mortal_scheduler(
    cluster: Cluster,
    writes: int,
    *,
    last_arrives: bool,
    counts: Callable[[Request], bool] = is_write,
    settings: Settings | None = None,
) -> AsyncGenerator[asyncio.Event]:
    """A scheduler that dies at its last write, which arrives or is lost; set when it has."""
    inner = transport_of(cluster)
    transport = Mortal(inner, writes, last_arrives=last_arrives, counts=counts)
    async with abandoned_scheduler(transport, settings):
        yield transport.died


@asynccontextmanager
async def abandoned_scheduler(
    transport: Transport, settings: Settings | None = None
) -> AsyncGenerator[None]:
    """A scheduler that ends without having been asked to."""
    clock = LoopClock()
    client = Client(transport, field_manager="scheduler")
    scheduler = build_scheduler(
        client, settings or Settings(), now=clock.now, monotonic=clock.monotonic
    )
    manager = Manager()
    manager.add(*scheduler.parts)
    manager.add_leading(*scheduler.leading)
    run = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        run.cancel()
        await asyncio.wait({run})


class Disturbed(Transport):
    """A way to the API on which a test does something before a request, or instead of it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.away = False
        self.before: Callable[[Request], Any] | None = None
        """Awaited before each request; may answer in the place of the server."""
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Reply:
        if self.away:
            raise ConnectionFailed("nobody is there")
        if self.before is not None:
            reply = await self.before(request)
            if reply is not None:
                return reply
        self.sent.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        if self.away:
            raise ConnectionFailed("nobody is there")
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def is_binding(request: Request) -> bool:
    """Whether a request places a pod."""
    return request.method == "POST" and request.path.endswith("/binding")


async def assert_nothing_twice(client: Client) -> None:
    """No accelerator is given to two pods that are there, and no node bears more than it can."""
    nodes = {each["metadata"]["name"]: each for each in (await client.list(NODES)).items}
    given: Counter[tuple[str, str]] = Counter()
    used: Counter[str] = Counter()
    for pod in (await client.list(PODS)).items:
        node = pod["spec"].get("nodeName", "")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        devices = pod["metadata"].get("annotations", {}).get("gpu.kilonova.dev/devices", "")
        given.update((node, each) for each in devices.split(",") if each)
        for container in pod["spec"]["containers"]:
            limits = container.get("resources", {}).get("limits", {})
            used[node] += int(limits.get("nvidia.com/gpu", 0))
    assert [each for each, count in given.items() if count > 1] == []
    over = {
        node: count
        for node, count in used.items()
        if node in nodes and count > int(nodes[node]["status"]["allocatable"]["nvidia.com/gpu"])
    }
    assert over == {}


@asynccontextmanager
async def full_cluster() -> AsyncGenerator[tuple[Cluster, Client]]:
    """One node, full of a gang that takes its time to go."""
    async with a_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        async with scheduler_on(cluster):
            names = await create_gang(client, "low", 2, gpus=4)
            await eventually(all_placed(client, names))
            for name in names:
                await hold(client, name)
            await settle(5)
        yield cluster, client


async def hold(client: Client, name: str, *, held: bool = True) -> None:
    """Keep a pod from being gone when it is deleted."""
    finalizers = ["example.com/slow"] if held else None
    await client.patch(PODS, name, {"metadata": {"finalizers": finalizers}}, "default")


async def nominated(client: Client, name: str) -> str:
    found = await client.get(PODS, name, "default")
    return found.get("status", {}).get("nominatedNodeName", "")
