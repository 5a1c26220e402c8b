"""Coherent updates when not all can be done at once: versions are never mixed."""

import re
from typing import Any

import pytest

from kilonova.kube import Client, Transport
from kilonova.kube.transport import Reply, Request
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import LoopClock, eventually, settle
from tests.workloads.ground import NAMESPACE, PODS, ground, parts_running
from tests.workloads.operator_cluster import operating
from tests.workloads.test_operator_updates import (
    all_pods_are,
    has_ended,
    has_versions,
    system,
    watching,
)

pytestmark = pytest.mark.looptime


class Refusing(Transport):
    """Refuses what matches, as `METHOD path`, until it is told to relent."""

    def __init__(self, inner: Transport, pattern: str) -> None:
        self.refused = 0
        self._inner = inner
        self._pattern: re.Pattern[str] | None = re.compile(pattern)

    def relent(self) -> None:
        self._pattern = None

    async def send(self, request: Request) -> Reply:
        if self._pattern and self._pattern.fullmatch(f"{request.method} {request.path}"):
            self.refused += 1
            return Reply(500)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    "refused",
    [
        "PATCH .*/podcliques/sys-0-worker",
        "PATCH .*/podcliques/sys-0-front",
        "DELETE .*/pods/sys-0-worker-.*",
        "DELETE .*/pods/sys-0-front-.*",
    ],
)
async def test_new_pods_wait_for_the_last_old_one_to_go(refused: str) -> None:
    async with ground() as place:
        async with operating(place.cluster):
            await place.apply(system(1, "1", coherent=True))
            await eventually(lambda: has_versions(place, ["1"] * 3))
        clock = LoopClock()
        inner = place.cluster.client("operator")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
        transport = Refusing(inner, refused)
        client = Client(transport, field_manager="operator")
        operator = build_operator(client, Settings(), now=clock.now, monotonic=clock.monotonic)
        async with parts_running(operator.parts, operator.leading), watching(place) as watcher:
            await place.apply(system(1, "2", coherent=True))
            await settle(30)
            assert transport.refused > 0
            transport.relent()
            await place.until(lambda each: has_ended(each) and each["updatedReplicas"] == 1)
            await all_pods_are(place, "2", 3)
        assert watcher.versions <= {frozenset(), frozenset("1"), frozenset("2")}


async def test_mixture_that_people_left_is_replaced_as_a_whole() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(system(1, "1", "OnDelete"))
        await eventually(lambda: has_versions(place, ["1"] * 3))
        await place.apply(system(1, "2", "OnDelete"))
        await place.until(has_ended)
        victim = (await place.all(PODS))[-1]["metadata"]["name"]
        await place.client.delete(PODS, victim, NAMESPACE)
        await eventually(lambda: has_versions(place, ["1", "1", "2"]))
        await place.apply(system(1, "2", coherent=True))
        await place.until(lambda each: has_ended(each) and each["updatedReplicas"] == 1)
        await all_pods_are(place, "2", 3)
