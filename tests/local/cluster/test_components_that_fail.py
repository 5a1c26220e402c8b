"""A component of a cluster that fails is started again, and the API goes on."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from kilonova.api.crds import definitions
from kilonova.cli.embeddedscheduler import scheduler_parts
from kilonova.kube import ComponentHealth, Part, Reflector
from kilonova.kube.events import Recorder
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.controllers import objects
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.nodes.lives import PodLives
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.timetable import Timetable
from tests.local.embedded_cluster import (
    PODS,
    LoopClock,
    eventually,
    find,
    pod,
    running,
    virtual_time,
)

pytestmark = virtual_time

FLEET = Fleet(nodes=(NodeGroup("n", 1, start="1s"),))


class Bomb:
    """A part that fails after a second."""

    name = "bomb"

    async def run(self) -> None:
        await asyncio.sleep(1)
        raise RuntimeError("boom")


async def test_a_component_that_raises_is_started_again_and_the_api_goes_on() -> None:
    built: list[float] = []
    reports: list[tuple[str, ComponentHealth]] = []

    def scheduler(cluster: Cluster) -> Sequence[Part]:
        built.append(cluster.clock.monotonic())
        parts = scheduler_parts(cluster)
        return [*parts, Bomb()] if len(built) == 1 else parts

    cluster = Cluster(
        Settings(port=None, fleet=FLEET),
        LoopClock(),
        definitions=definitions(),
        components={"scheduler": scheduler},
        report=lambda name, health: reports.append((name, health)),
    )
    await cluster.start()
    try:
        client = cluster.client("test")
        await eventually(lambda: _are(reports, 1))
        assert reports == [("scheduler", ComponentHealth(1, "bomb failed: boom"))]
        assert cluster.broken is not None
        assert not cluster.broken.done()
        # What comes after the failure is scheduled by the second one, and runs.
        await client.create(PODS, pod("later"), "default")
        await eventually(lambda: _runs(cluster, "later"))
        assert len(built) == 2
        assert b"kilonova_scheduler" in cluster.metrics.render()
    finally:
        await cluster.stop()


async def test_what_simulated_nodes_do_wrong_does_not_end_the_shared_cache_of_pods() -> None:
    class Lost(dict[str, Machine]):
        def get(self, key: str, default: object = None) -> Any:
            if key != "n-0":
                raise RuntimeError("boom")
            played.append(key)

    async with running() as cluster:
        client = cluster.client("test")
        pods = Reflector(client, objects.PODS)
        timetable, random = Timetable(), Random(0)
        recorder = Recorder(client, "test")
        lives = PodLives(client, pods, Lost(), timetable, random, cluster.clock.now, recorder)
        errors: list[str] = []

        def fail(name: str, error: Exception) -> None:
            errors.append(f"{name} {error}")

        played: list[str] = []
        seen: list[str] = []
        lives.begin(fail)
        pods.store.subscribe(lambda _, new: seen.append(new.metadata.name if new else ""))
        following = asyncio.create_task(pods.run())
        await pods.wait_synced()
        for name in ("a", "b"):
            await client.create(PODS, pod(name), "default")
        await eventually(lambda: _are(seen, 2))
        assert [each.partition("_")[0] for each in errors] == ["a", "b"]
        assert {each.partition(" ")[2] for each in errors} == {"boom"}
        assert not following.done()
        # Those that are there at the start are played, one that cannot be among them or not.
        await client.create(PODS, pod("good", nodeName="n-0"), "default")
        await eventually(lambda: _are(seen, 3))
        errors.clear()
        played.clear()
        lives.begin(fail)()
        assert (len(errors), len(played)) == (2, 1)
        following.cancel()


async def test_an_act_that_fails_is_tried_again_and_the_others_go_on() -> None:
    timetable = Timetable()
    loop = asyncio.get_running_loop()
    done: list[tuple[str, float]] = []

    async def fail() -> None:
        done.append(("fail", loop.time()))
        raise ValueError("boom")

    async def go_on() -> None:
        done.append(("go on", loop.time()))

    begun = loop.time()
    running_it = asyncio.create_task(timetable.run())
    timetable.after(1, fail)
    timetable.after(2, go_on)
    await asyncio.sleep(70)
    assert not running_it.done()
    running_it.cancel()
    assert [(what, round(when - begun)) for what, when in done] == [
        ("fail", 1),
        ("go on", 2),
        ("fail", 61),
    ]


async def _are(found: Sequence[object], count: int) -> bool:
    return len(found) == count


async def _runs(cluster: Cluster, name: str) -> bool:
    found = await find(cluster.client("test"), PODS, name)
    return found is not None and found["status"]["phase"] == "Running"
