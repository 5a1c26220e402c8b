"""The main faults on both servers: crashes between bindings, lost answers, foreign bindings."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Transport
from kilonova.kube.transport import Reply, Request
from kilonova.scheduler.settings import Settings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, eventually
from tests.scheduler.faults import Disturbed, abandoned_scheduler, is_binding
from tests.scheduler.process.scheduler_ground import Ground, ground
from tests.scheduler.scheduling import make_priority
from tests.workloads.mortal import Mortal


@pytest.fixture
async def defined(api: Api) -> Api:
    """A server that has our kinds."""
    async with api.client() as client:
        await install_definitions(client)
    return api


def settings(api: Api) -> Settings:
    """For a scheduler that has nothing to do with those of other tests."""
    return Settings(serves=frozenset({f"ours-{api.namespace}"}))


@asynccontextmanager
async def way_to(api: Api) -> AsyncGenerator[Transport]:
    """A transport of its own."""
    async with api.client() as client:
        yield _transport(client)


def _transport(client: Client) -> Transport:
    return client._transport  # pyright: ignore[reportPrivateUsage]  # a test disturbs it


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_whatever_binding_is_the_last_the_gang_is_finished(
    defined: Api, last_arrives: bool
) -> None:
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    async with ground(defined, 2) as place, way_to(defined) as way:
        names = await place.create_gang("g", 4, 4, **ours)
        for bindings in (1, 2):
            dying = Mortal(way, bindings, last_arrives=last_arrives, counts=is_binding)
            async with abandoned_scheduler(dying, settings(defined)):
                await asyncio.wait_for(dying.died.wait(), 30)
        async with abandoned_scheduler(way, settings(defined)):
            await place.until_placed(*names)
            await place.assert_nothing_twice()


async def test_an_answer_that_was_lost_and_a_foreign_binding_double_nothing(defined: Api) -> None:
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    async with ground(defined, 3) as place, way_to(defined) as inner:
        way = Disturbed(inner)
        disturbed: set[str] = set()

        async def disturb(request: Request) -> Reply | None:
            if not is_binding(request):
                return None
            name = request.path.split("/")[-2]
            if name == "g-0" and name not in disturbed:
                disturbed.add(name)
                await inner.send(request)
                return Reply(504, b'{"kind":"Status","code":504,"message":"timeout"}', {})
            if name == "g-1" and name not in disturbed:
                disturbed.add(name)
                node = json.loads(request.body)["target"]["name"]
                other = next(place.node(i) for i in range(3) if place.node(i) != node)
                await place.client.bind(name, place.namespace, other)
            return None

        way.before = disturb
        async with abandoned_scheduler(way, settings(defined)):
            names = await place.create_gang("g", 2, 4, **ours)
            await place.until_placed(*names)
            assert disturbed == {"g-0", "g-1"}
            await place.create(place.pod("whole", 8, **ours))
            await place.until_placed("whole")
            await place.assert_nothing_twice()
            nodes = {name: pod["spec"]["nodeName"] for name, pod in (await place.pods()).items()}
            assert nodes["whole"] not in (nodes["g-0"], nodes["g-1"])


async def test_a_promise_outlives_the_scheduler_that_gave_it(defined: Api) -> None:
    """The pods that make way are held by a finalizer, and let go only under the next scheduler."""
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    priority = f"high-{defined.namespace}"
    async with ground(defined, 1) as place, way_to(defined) as way:
        await make_priority(place.client, priority, 1000)
        async with abandoned_scheduler(way, settings(defined)):
            low = await place.create_gang("low", 2, 4, **ours)
            await place.until_placed(*low)
            await _hold(place, low, ["example.com/slow"])
            await place.create(place.pod("chief", 8, priorityClassName=priority, **ours))

            async def promised() -> bool:
                pods = await place.pods()
                leaving = [pods[name]["metadata"].get("deletionTimestamp") for name in low]
                nominated = pods["chief"].get("status", {}).get("nominatedNodeName")
                return all(leaving) and nominated == place.node(0)

            await eventually(promised, within=30)
        for index in range(8):
            await place.create(place.pod(f"greedy-{index}", 1, **ours))
        async with abandoned_scheduler(way, settings(defined)):
            await _hold(place, low, None)
            await place.until_placed("chief")
            pods = await place.pods()
            assert not any(pods[f"greedy-{index}"]["spec"].get("nodeName") for index in range(8))


async def _hold(place: Ground, names: list[str], finalizers: list[str] | None) -> None:
    for name in names:
        patch = {"metadata": {"finalizers": finalizers}}
        await place.client.patch(PODS, name, patch, place.namespace)
