"""Two schedulers of which one leads: whatever becomes of it, nothing is given away twice."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kilonova.kube import Client, Manager, Transport
from kilonova.kube.election import Elector, FencedTransport
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, LoopClock, eventually, settle, virtual_time
from tests.scheduler.faults import Disturbed, assert_nothing_twice, is_binding, transport_of
from tests.scheduler.scheduling import (
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    nodes_of,
    pod,
)
from tests.workloads.mortal import Mortal

pytestmark = virtual_time


class Candidate:
    """A copy of a scheduler, as a process is put together."""

    def __init__(self, transport: Transport, name: str) -> None:
        clock = LoopClock()
        self.elector = Elector(
            Client(transport),
            "kilonova-scheduler",
            "kube-system",
            identity=name,
            clock=clock.monotonic,
            wall=clock.now,
        )
        client = Client(FencedTransport(transport, lambda: self.elector.leadership))
        scheduler = build_scheduler(client, Settings(), now=clock.now, monotonic=clock.monotonic)
        self.manager = Manager(election=self.elector)
        self.manager.add(*scheduler.parts)
        self.manager.add_leading(*scheduler.leading)
        self.task: asyncio.Task[None] | None = None

    async def leads(self) -> bool:
        return self.elector.leadership is not None


@asynccontextmanager
async def candidate(transport: Transport, name: str) -> AsyncGenerator[Candidate]:
    """One that runs until it ends by itself, or the context does."""
    one = Candidate(transport, name)
    one.task = asyncio.create_task(one.manager.run(signals=False))
    try:
        yield one
    finally:
        one.task.cancel()
        await asyncio.wait({one.task})


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("bindings", [1, 3])
async def test_when_the_leader_dies_in_a_gang_the_other_finishes_it(
    bindings: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        dying = Mortal(
            transport_of(cluster), bindings, last_arrives=last_arrives, counts=is_binding
        )
        async with candidate(dying, "first") as first:
            await eventually(first.leads)
            async with candidate(transport_of(cluster), "second") as second:
                names = await create_gang(client, "g", 4, gpus=4)
                await asyncio.wait_for(dying.died.wait(), 60)
                await client.create(PODS, pod("late", 1), "default")
                await eventually(second.leads)
                await eventually(all_placed(client, names))
                await settle(20)
                await assert_nothing_twice(client)
                assert (await nodes_of(client))["late"] == ""


async def test_a_leader_that_was_cut_off_writes_nothing_when_it_comes_back() -> None:
    async with a_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        way = Disturbed(transport_of(cluster))
        async with candidate(way, "first") as first:
            await eventually(first.leads)

            async def cut_off(request: Request) -> None:
                way.away = way.away or is_binding(request)

            way.before = cut_off
            await create_gang(client, "g", 2, gpus=4)
            await settle(2)
            async with candidate(transport_of(cluster), "second") as second:
                await eventually(second.leads)
                sent = sum(map(is_binding, way.sent))
                way.before, way.away = None, False
                await eventually(all_placed(client, ["g-0", "g-1"]))
                await settle(30)
                assert sum(map(is_binding, way.sent)) == sent
                assert first.task is not None
                assert first.task.done()
                await assert_nothing_twice(client)


class Lagging(Transport):
    """A way on which watches stand still while `open` is not set."""

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


async def test_who_takes_over_with_old_caches_does_not_give_room_away_again() -> None:
    async with a_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        way, lagging = Disturbed(transport_of(cluster)), Lagging(transport_of(cluster))
        go = asyncio.Event()

        async def wait_at_binding(request: Request) -> None:
            if is_binding(request):
                await go.wait()

        way.before = wait_at_binding
        first = Candidate(way, "first")
        first.task = asyncio.create_task(first.manager.run(signals=False))
        await eventually(first.leads)
        async with candidate(lagging, "second") as second:
            staying = pod("staying", 8)
            notes = {"scheduling.kilonova.dev/preemptible": "false"}
            staying["metadata"]["annotations"] = notes
            await client.create(PODS, staying, "default")
            await settle(1)
            await client.create(PODS, pod("late", 8, priorityClassName="high"), "default")
            await settle(1)
            lagging.open.clear()
            go.set()
            await eventually(all_placed(client, ["staying"]))
            first.task.cancel()
            await eventually(second.leads)
            await settle(30)
            assert (await nodes_of(client))["late"] == ""
            await assert_nothing_twice(client)
            lagging.open.set()
            await client.delete(PODS, "staying", "default", grace=0)
            await eventually(all_placed(client, ["late"]))
