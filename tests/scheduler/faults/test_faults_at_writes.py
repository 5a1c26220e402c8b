"""A fault at each write of a preemption in turn: the gang is bound all the same."""

import asyncio
from itertools import count
from typing import Any

import pytest

from kilonova.kube import Client, ConnectionFailed, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import PODS, virtual_time, wait_deleted, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    pod,
)
from tests.scheduler.harness.fault_injection import (
    assert_no_double_allocation,
    killed_scheduler,
    transport_of,
)
from tests.workloads.crashing_operator import is_write

pytestmark = virtual_time

SETTINGS = SchedulerSettings(eviction_timeout=20, retry_interval=5)
FAULTS = ("400", "409", "429", "500", "lost", "unanswered", "slow")


class OneFault(Transport):
    """A transport on which one write fails, counted from `armed`."""

    def __init__(self, inner: Transport, fault: str, at: int) -> None:
        self._inner = inner
        self._fault = fault
        self.left = at
        self.armed = False

    async def send(self, request: Request) -> Reply:
        if self.armed and is_write(request):
            self.left -= 1
            if self.left == 0:
                return await self._fail(request)
        return await self._inner.send(request)

    async def _fail(self, request: Request) -> Reply:
        match self._fault:
            case "lost":
                raise ConnectionFailed("cut off")
            case "unanswered":
                await self._inner.send(request)
                return _status(504)
            case "slow":
                await asyncio.sleep(15)
                return await self._inner.send(request)
            case code:
                return _status(int(code))

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def _status(code: int) -> Reply:
    return Reply(code, b'{"kind":"Status","code":%d,"message":"injected"}' % code, {})


@pytest.mark.parametrize("fault", FAULTS)
async def test_gang_is_bound_whichever_write_fails(fault: str) -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        for at in count(1):
            way = OneFault(transport_of(cluster), fault, at)
            async with killed_scheduler(way, SETTINGS):
                victims = [f"low-{at}-{index}" for index in range(2)]
                for name in victims:
                    await client.create(PODS, pod(name, 4), "default")
                await wait_for_condition(are_all_placed(client, victims))
                way.armed = True
                spec = {"priorityClassName": "high"}
                names = await create_gang(client, f"chief-{at}", 2, gpus=4, **spec)
                await wait_for_condition(are_all_placed(client, names), within=200)
                await assert_no_double_allocation(client)
                await remove(client, f"chief-{at}", [*names, *victims])
            if way.left > 0:
                assert at > 6, "each nomination, eviction and binding is a write"
                return


async def remove(client: Client, gang: str, names: list[str]) -> None:
    await client.delete(GANGS, gang, "default")
    for name in names:
        await delete_by_force(client, name)


async def delete_by_force(client: Client, name: str) -> None:
    listing = await client.list(PODS, "default")
    if any(each["metadata"]["name"] == name for each in listing.items):
        await client.delete(PODS, name, "default", grace_period_seconds=0)
        await wait_deleted(client, PODS, name)
