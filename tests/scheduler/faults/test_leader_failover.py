"""Two schedulers with leader election: no capacity is allocated twice, whatever happens to the
leader."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kilonova.kube import Client, Manager, Transport
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.election import ApiLeaseStore, FencedTransport, LeaderElector
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    assert_no_double_allocation,
    is_binding,
    transport_of,
)
from tests.workloads.crashing_operator import CrashingTransport

pytestmark = virtual_time


class Candidate:
    """A replica of a scheduler, assembled as in a process."""

    def __init__(self, transport: Transport, name: str) -> None:
        clock = LoopClock()
        self.elector = LeaderElector(
            ApiLeaseStore(Client(transport), "kilonova-scheduler", "kube-system"),
            identity=name,
            clock=clock.monotonic,
            wall=clock.now,
        )
        client = Client(FencedTransport(transport, lambda: self.elector.leadership))
        scheduler = build_scheduler(
            client, SchedulerSettings(), now=clock.now, monotonic=clock.monotonic
        )
        self.manager = Manager(election=self.elector)
        self.manager.add(*scheduler.runnables)
        self.manager.add_leader_runnables(*scheduler.leader_runnables)
        self.task: asyncio.Task[None] | None = None

    async def leads(self) -> bool:
        return self.elector.leadership is not None


@asynccontextmanager
async def candidate(transport: Transport, name: str) -> AsyncGenerator[Candidate]:
    """A replica that runs until it ends by itself, or the context does."""
    one = Candidate(transport, name)
    one.task = asyncio.create_task(one.manager.run(signals=False))
    try:
        yield one
    finally:
        one.task.cancel()
        await asyncio.wait({one.task})


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("bindings", [1, 3])
async def test_standby_completes_a_gang_when_the_leader_dies(
    bindings: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        dying = CrashingTransport(
            transport_of(cluster),
            bindings,
            last_write_arrives=last_arrives,
            counts_as_write=is_binding,
        )
        async with candidate(dying, "first") as first:
            await wait_for_condition(first.leads)
            async with candidate(transport_of(cluster), "second") as second:
                names = await create_gang(client, "g", 4, gpus=4)
                await asyncio.wait_for(dying.crashed.wait(), 60)
                await client.create(PODS, pod("late", 1), "default")
                await wait_for_condition(second.leads)
                await wait_for_condition(are_all_placed(client, names))
                await advance_time(20)
                await assert_no_double_allocation(client)
                assert (await nodes_by_pod(client))["late"] == ""


async def test_partitioned_leader_writes_nothing_when_it_reconnects() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        way = InterceptedTransport(transport_of(cluster))
        async with candidate(way, "first") as first:
            await wait_for_condition(first.leads)

            async def cut_off(request: Request) -> None:
                way.is_unreachable = way.is_unreachable or is_binding(request)

            way.intercept = cut_off
            await create_gang(client, "g", 2, gpus=4)
            await advance_time(2)
            async with candidate(transport_of(cluster), "second") as second:
                await wait_for_condition(second.leads)
                sent = sum(map(is_binding, way.sent))
                way.intercept, way.is_unreachable = None, False
                await wait_for_condition(are_all_placed(client, ["g-0", "g-1"]))
                await advance_time(30)
                assert sum(map(is_binding, way.sent)) == sent
                assert first.task is not None
                assert first.task.done()
                await assert_no_double_allocation(client)


class LaggingTransport(Transport):
    """A transport whose watches are stalled while `open` is not set."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, request: Request) -> Reply:
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        async with self._inner.stream(request) as reply:
            yield StreamReply(reply.status, self._held(reply.chunks), reply.headers)

    async def _held(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await self.open.wait()
            yield chunk

    async def close(self) -> None:
        await self._inner.close()


async def test_new_leader_with_stale_caches_does_not_double_allocate() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        way, lagging = (
            InterceptedTransport(transport_of(cluster)),
            LaggingTransport(transport_of(cluster)),
        )
        go = asyncio.Event()

        async def wait_at_binding(request: Request) -> None:
            if is_binding(request):
                await go.wait()

        way.intercept = wait_at_binding
        first = Candidate(way, "first")
        first.task = asyncio.create_task(first.manager.run(signals=False))
        await wait_for_condition(first.leads)
        async with candidate(lagging, "second") as second:
            staying = pod("staying", 8)
            notes = {"scheduling.kilonova.dev/preemptible": "false"}
            staying["metadata"]["annotations"] = notes
            await client.create(PODS, staying, "default")
            await advance_time(1)
            await client.create(PODS, pod("late", 8, priorityClassName="high"), "default")
            await advance_time(1)
            lagging.open.clear()
            go.set()
            await wait_for_condition(are_all_placed(client, ["staying"]))
            first.task.cancel()
            await wait_for_condition(second.leads)
            await advance_time(30)
            assert (await nodes_by_pod(client))["late"] == ""
            await assert_no_double_allocation(client)
            lagging.open.set()
            await client.delete(PODS, "staying", "default", grace_period_seconds=0)
            await wait_for_condition(are_all_placed(client, ["late"]))
