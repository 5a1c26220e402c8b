"""The queue of held requests, in virtual time."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from kilonova.api.serving import Autoscaling, InferenceServiceSpec, ScaleToZero, ServerGroup
from kilonova.serving.controlplane.ads.snapshot import Snapshot
from kilonova.serving.controlplane.holds.answer import HoldOutcome
from kilonova.serving.controlplane.holds.requests import (
    HeldRequestQueue,
    HoldUnavailable,
    Wanted,
)
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publication, Publications
from kilonova.serving.gateway.model import (
    ControlPlaneAddress,
    Endpoint,
    EndpointState,
    GatewayState,
    ServiceKey,
)
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

KEY = ("default", "web")
MAIN = Wanted(KEY, "main")
READY = Endpoint("web-main-0", "10.0.0.1")
DRAINING = Endpoint("web-main-0", "10.0.0.1", state=EndpointState.DRAINING)


@dataclass
class KnownGateways:
    """The gateways of a service, as the test says."""

    acknowledged: bool = True
    all_here: bool = True

    def have_endpoints(self, key: ServiceKey) -> bool:
        return self.acknowledged

    def are_all_here(self, key: ServiceKey) -> bool:
        return self.all_here


class Queue:
    """A queue for one service with one group."""

    def __init__(self, **limits: Any) -> None:
        self.publications = Publications()
        self.gateways = KnownGateways()
        self.held = HeldRequestQueue(self.publications, self.gateways, ControlPlaneMetrics())
        self.publications.add_listener(self.held.update)
        scaling = Autoscaling(max_replicas=4, min_replicas=0, scale_to_zero=ScaleToZero(**limits))
        self.spec = InferenceServiceSpec(servers=(ServerGroup(name="main", autoscaling=scaling),))
        self.publish()

    def publish(self, *endpoints: Endpoint, starting: bool = True) -> None:
        """The group has these endpoints from now on."""
        state = GatewayState(
            endpoints={"main": endpoints},
            control_plane=ControlPlaneAddress("127.0.0.1", 18000),
            token="token",
            starting=frozenset({"main"}) if starting else frozenset(),
        )
        self.publications.publish(KEY, Publication(self.spec, state, Snapshot({})))

    async def hold(self, wanted: Wanted = MAIN) -> asyncio.Task[HoldOutcome]:
        """A request that waits."""
        task = asyncio.create_task(self.held.hold(wanted))
        await asyncio.sleep(0)
        return task


async def test_request_goes_on_when_a_server_is_ready() -> None:
    queue = Queue()
    requests = [await queue.hold() for _ in range(3)]
    assert queue.held.count(KEY, "main") == 3
    queue.publish(DRAINING)
    await asyncio.sleep(1)
    assert not any(each.done() for each in requests)
    queue.publish(READY)
    assert {await each for each in requests} == {HoldOutcome.READY}
    assert queue.held.count(KEY, "main") == 0


async def test_request_waits_until_all_gateways_know_the_server() -> None:
    queue = Queue()
    queue.gateways.acknowledged = False
    request = await queue.hold()
    queue.publish(READY)
    await asyncio.sleep(0.5)
    assert not request.done()
    queue.gateways.acknowledged = True
    queue.held.update(KEY)
    assert await request is HoldOutcome.READY


@pytest.mark.parametrize(
    ("acknowledged", "all_here", "uptime", "patience"),
    [(False, True, 60, 2), (True, False, 60, 1), (True, False, 1, 4)],
    ids=["gateway hangs", "gateway of another replica", "gateways connect again"],
)
async def test_patience_with_gateways_ends(
    acknowledged: bool, all_here: bool, uptime: float, patience: float
) -> None:
    queue = Queue()
    await asyncio.sleep(uptime)
    queue.gateways.acknowledged, queue.gateways.all_here = acknowledged, all_here
    request = await queue.hold()
    queue.publish(READY)
    loop = asyncio.get_running_loop()
    published = loop.time()
    assert await request is HoldOutcome.READY
    assert loop.time() - published == pytest.approx(patience)


async def test_request_for_a_model_waits_for_a_server_that_has_it() -> None:
    queue = Queue()
    request = await queue.hold(Wanted(KEY, "main", "bert"))
    assert queue.held.requested(KEY, "main") == {"bert"}
    queue.publish(Endpoint("a", "10.0.0.1", models=frozenset({"add"})), starting=False)
    assert await queue.held.hold(MAIN) is HoldOutcome.READY
    assert not request.done()
    queue.publish(Endpoint("a", "10.0.0.1", models=frozenset({"bert"})), starting=False)
    assert await request is HoldOutcome.READY
    assert queue.held.requested(KEY, "main") == frozenset()


async def test_hold_ends_after_its_timeout() -> None:
    queue = Queue(hold_timeout="30s")
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await queue.held.hold(MAIN) is HoldOutcome.TIMEOUT
    assert loop.time() - started == pytest.approx(30)


async def test_number_of_held_requests_is_limited() -> None:
    queue = Queue(max_held=2)
    held = [await queue.hold(), await queue.hold(Wanted(KEY, "main", "bert"))]
    assert await queue.held.hold(MAIN) is HoldOutcome.FULL
    queue.publish(READY)
    assert [await each for each in held] == [HoldOutcome.READY] * 2


async def test_client_that_gives_up_makes_room() -> None:
    queue = Queue(max_held=1)
    first = await queue.hold()
    first.cancel()
    await asyncio.wait({first})
    assert queue.held.count(KEY, "main") == 0
    second = await queue.hold()
    assert not second.done()
    queue.publish(READY)
    assert await second is HoldOutcome.READY


async def test_listeners_learn_of_the_first_request_alone() -> None:
    queue = Queue()
    woken: list[ServiceKey] = []
    queue.held.add_listener(woken.append)
    requests = [await queue.hold() for _ in range(3)]
    assert woken == [KEY]
    queue.publish(READY)
    await asyncio.wait(requests)
    queue.publish()
    requests = [await queue.hold()]
    assert woken == [KEY, KEY]
    queue.publish(READY)
    await asyncio.wait(requests)


async def test_request_for_a_group_that_does_not_start_is_refused() -> None:
    queue = Queue()
    held = await queue.hold()
    queue.publish(starting=False)
    assert await held is HoldOutcome.NO_SERVER
    assert await queue.held.hold(MAIN) is HoldOutcome.NO_SERVER
    assert await queue.held.hold(Wanted(KEY, "other")) is HoldOutcome.NO_SERVER


async def test_gateways_ask_again_while_the_process_stops_or_starts() -> None:
    queue = Queue()
    with pytest.raises(HoldUnavailable):
        await queue.held.hold(Wanted(("default", "unknown"), "main"))
    held = await queue.hold()
    queue.held.stop()
    with pytest.raises(HoldUnavailable):
        await held
    with pytest.raises(HoldUnavailable):
        await queue.held.hold(MAIN)
