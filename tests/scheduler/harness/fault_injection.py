"""Schedulers that crash, and invariants of a cluster."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client, ConnectionFailed, Manager, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import NODES, PODS, LoopClock, advance_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    running_scheduler,
)
from tests.workloads.crashing_operator import CrashingTransport, is_write


def transport_of(cluster: EmbeddedCluster) -> Transport:
    """The transport of a scheduler in this process."""
    return cluster.client("scheduler")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process


@asynccontextmanager
async def crashing_scheduler(
    cluster: EmbeddedCluster,
    writes: int,
    *,
    last_arrives: bool,
    counts: Callable[[Request], bool] = is_write,
    settings: SchedulerSettings | None = None,
) -> AsyncGenerator[asyncio.Event]:
    """A scheduler that crashes at its last write, which arrives or is lost; the event is set
    then."""
    inner = transport_of(cluster)
    transport = CrashingTransport(
        inner, writes, last_write_arrives=last_arrives, counts_as_write=counts
    )
    async with killed_scheduler(transport, settings):
        yield transport.crashed


@asynccontextmanager
async def killed_scheduler(
    transport: Transport, settings: SchedulerSettings | None = None
) -> AsyncGenerator[None]:
    """Run a scheduler and cancel it without a graceful stop."""
    clock = LoopClock()
    client = Client(transport, field_manager="scheduler")
    scheduler = build_scheduler(
        client, settings or SchedulerSettings(), now=clock.now, monotonic=clock.monotonic
    )
    manager = Manager()
    manager.add(*scheduler.runnables)
    manager.add_leader_runnables(*scheduler.leader_runnables)
    run = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        run.cancel()
        await asyncio.wait({run})


class InterceptedTransport(Transport):
    """A transport that lets a test act before a request, or answer instead of the server."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_unreachable = False
        self.intercept: Callable[[Request], Any] | None = None
        """Awaited before each request; may return a reply instead of the server."""
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Reply:
        if self.is_unreachable:
            raise ConnectionFailed("the server is unavailable")
        if self.intercept is not None:
            reply = await self.intercept(request)
            if reply is not None:
                return reply
        self.sent.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        if self.is_unreachable:
            raise ConnectionFailed("the server is unavailable")
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def is_binding(request: Request) -> bool:
    """Whether a request binds a pod."""
    return request.method == "POST" and request.path.endswith("/binding")


async def assert_no_double_allocation(client: Client) -> None:
    """No device is allocated to two pods, and no node is overcommitted."""
    nodes = {each["metadata"]["name"]: each for each in (await client.list(NODES)).items}
    allocated: Counter[tuple[str, str]] = Counter()
    used: Counter[str] = Counter()
    for pod in (await client.list(PODS)).items:
        node = pod["spec"].get("nodeName", "")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        devices = pod["metadata"].get("annotations", {}).get("gpu.kilonova.dev/devices", "")
        allocated.update((node, each) for each in devices.split(",") if each)
        for container in pod["spec"]["containers"]:
            limits = container.get("resources", {}).get("limits", {})
            used[node] += int(limits.get("nvidia.com/gpu", 0))
    assert [each for each, count in allocated.items() if count > 1] == []
    over = {
        node: count
        for node, count in used.items()
        if node in nodes and count > int(nodes[node]["status"]["allocatable"]["nvidia.com/gpu"])
    }
    assert over == {}


@asynccontextmanager
async def full_cluster() -> AsyncGenerator[tuple[EmbeddedCluster, Client]]:
    """One node, full with a gang that terminates slowly."""
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        async with running_scheduler(cluster):
            names = await create_gang(client, "low", 2, gpus=4)
            await wait_for_condition(are_all_placed(client, names))
            for name in names:
                await set_slow_termination(client, name)
            await advance_time(5)
        yield cluster, client


async def set_slow_termination(client: Client, name: str, *, slow: bool = True) -> None:
    """Add a finalizer to a pod, so that it stays terminating."""
    finalizers = ["example.com/slow"] if slow else None
    await client.patch(PODS, name, {"metadata": {"finalizers": finalizers}}, "default")


async def nominated_node(client: Client, name: str) -> str:
    found = await client.get(PODS, name, "default")
    return found.get("status", {}).get("nominatedNodeName", "")
