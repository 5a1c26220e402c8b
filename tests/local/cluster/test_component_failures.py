"""A failing component of a cluster is restarted, and the API server keeps running."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.component.embedded import EmbeddedContext
from kilonova.kube import ComponentHealth, Reflector, Runnable
from kilonova.kube.events import EventRecorder
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.objects import core as objects
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.lifecycle import PodSimulator
from kilonova.local.simnodes.timer_queue import TimerQueue
from kilonova.scheduler.embedded import build_embedded_scheduler
from tests.local.embedded_cluster import (
    PODS,
    LoopClock,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

FLEET = Fleet(nodes=(NodeGroup("n", 1, start="1s"),))


class FailingComponent:
    """A runnable that fails after a second."""

    name = "bomb"

    async def run(self) -> None:
        await asyncio.sleep(1)
        raise RuntimeError("boom")


async def test_failing_component_is_restarted_and_the_api_keeps_running() -> None:
    built: list[float] = []
    reports: list[tuple[str, ComponentHealth]] = []

    def scheduler(cluster: EmbeddedCluster) -> Sequence[Runnable]:
        built.append(cluster.clock.monotonic())
        context = EmbeddedContext("scheduler", cluster, {})
        parts = build_embedded_scheduler(context).build_runnables()
        return [*parts, FailingComponent()] if len(built) == 1 else parts

    cluster = EmbeddedCluster(
        ClusterSettings(port=None, fleet=FLEET),
        LoopClock(),
        definitions=load_definitions(),
        components={"scheduler": scheduler},
        report=lambda name, health: reports.append((name, health)),
    )
    await cluster.start()
    try:
        client = cluster.client("test")
        await wait_for_condition(lambda: _are(reports, 1))
        assert reports == [("scheduler", ComponentHealth(1, "bomb failed: boom"))]
        assert cluster.failure is not None
        assert not cluster.failure.done()
        # Pods created after the failure are scheduled by the second one, and run.
        await client.create(PODS, pod("later"), "default")
        await wait_for_condition(lambda: _runs(cluster, "later"))
        assert len(built) == 2
        assert b"kilonova_scheduler" in cluster.metrics.render()
    finally:
        await cluster.stop()


async def test_simulated_node_failure_does_not_stop_the_shared_pod_cache() -> None:
    class Lost(dict[str, SimulatedMachine]):
        def get(self, key: str, default: object = None) -> Any:
            if key != "n-0":
                raise RuntimeError("boom")
            played.append(key)

    async with run_cluster() as cluster:
        client = cluster.client("test")
        pods = Reflector(client, objects.PODS)
        timers, random = TimerQueue(), Random(0)
        recorder = EventRecorder(client, "test")
        simulator = PodSimulator(client, pods, Lost(), timers, random, cluster.clock.now, recorder)
        errors: list[str] = []

        def fail(name: str, error: Exception) -> None:
            errors.append(f"{name} {error}")

        played: list[str] = []
        observed: list[str] = []
        simulator.start(fail)
        pods.store.add_event_handler(
            lambda _, new: observed.append(new.metadata.name if new else "")
        )
        following = asyncio.create_task(pods.run())
        await pods.wait_for_sync()
        for name in ("a", "b"):
            await client.create(PODS, pod(name), "default")
        await wait_for_condition(lambda: _are(observed, 2))
        assert [each.partition("_")[0] for each in errors] == ["a", "b"]
        assert {each.partition(" ")[2] for each in errors} == {"boom"}
        assert not following.done()
        # Existing nodes are simulated, whether or not one of them fails.
        await client.create(PODS, pod("good", nodeName="n-0"), "default")
        await wait_for_condition(lambda: _are(observed, 3))
        errors.clear()
        played.clear()
        simulator.start(fail)()
        assert (len(errors), len(played)) == (2, 1)
        following.cancel()


async def test_failing_node_action_is_retried_and_others_continue() -> None:
    timers = TimerQueue()
    loop = asyncio.get_running_loop()
    done: list[tuple[str, float]] = []

    async def fail() -> None:
        done.append(("fail", loop.time()))
        raise ValueError("boom")

    async def go_on() -> None:
        done.append(("go on", loop.time()))

    started = loop.time()
    running_it = asyncio.create_task(timers.run())
    timers.call_after(1, fail)
    timers.call_after(2, go_on)
    await asyncio.sleep(70)
    assert not running_it.done()
    running_it.cancel()
    assert [(what, round(when - started)) for what, when in done] == [
        ("fail", 1),
        ("go on", 2),
        ("fail", 61),
    ]


async def _are(found: Sequence[object], count: int) -> bool:
    return len(found) == count


async def _runs(cluster: EmbeddedCluster, name: str) -> bool:
    found = await find(cluster.client("test"), PODS, name)
    return found is not None and found["status"]["phase"] == "Running"
