"""What `kilonova status` is told of the components of a cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp
import pytest

from kilonova.cli.embeddedconsole import EmbeddedConsole
from kilonova.cli.options import UpOptions
from kilonova.cli.residents import Residents
from kilonova.cli.rooms import Rooms
from kilonova.cli.status import Status, written
from kilonova.kube import ComponentHealth, Part
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.storage import Durability


@pytest.mark.looptime
async def test_a_component_that_fails_is_degraded_until_it_has_recovered() -> None:
    rooms = Rooms()
    told: list[tuple[str, str]] = []

    def tell(states: Mapping[str, str], problems: Mapping[str, str]) -> None:
        told.append((states["scheduler"], problems.get("scheduler", "")))

    async def never() -> None:
        await asyncio.Event().wait()

    rooms.add("scheduler", never)
    opening = asyncio.create_task(rooms.open(tell))
    await asyncio.sleep(1)
    assert told == [("starting", "")]
    rooms.report("scheduler", ComponentHealth(1, "scheduler failed: boom"))
    # The others can be used: nobody waits for one that does not start.
    await opening
    rooms.report("scheduler", ComponentHealth(2, "scheduler failed: boom"))
    rooms.report("scheduler", ComponentHealth())
    assert told[1:] == [
        ("degraded", "failed once, is being restarted: scheduler failed: boom"),
        ("degraded", "failed 2 times, is being restarted: scheduler failed: boom"),
        ("running", ""),
    ]


def test_status_says_why_a_component_is_degraded() -> None:
    status = Status(
        running=True,
        data="/data",
        rooms={"api": "running", "scheduler": "degraded"},
        problems={"scheduler": "failed once, is being restarted: scheduler failed: boom"},
    )
    lines = [line.split(maxsplit=1) for line in written(status, "table").splitlines()]
    assert ["rooms", "api running, scheduler degraded"] in lines
    reason = "scheduler failed once, is being restarted: scheduler failed: boom"
    assert ["degraded", reason] in lines


class Bomb:
    """A part that fails when it is told to."""

    name = "bomb"

    def __init__(self, trigger: asyncio.Event) -> None:
        self._trigger = trigger

    async def run(self) -> None:
        await self._trigger.wait()
        raise RuntimeError("boom")


async def test_a_console_that_fails_is_back_at_the_same_address(tmp_path: Path) -> None:
    options = UpOptions(tmp_path, "127.0.0.1", 0, "normal", None, demo=False)
    console, trigger, failed = EmbeddedConsole(options), asyncio.Event(), asyncio.Event()

    def parts(cluster: Cluster) -> Sequence[Part]:
        return [*console.parts(cluster), *(() if trigger.is_set() else (Bomb(trigger),))]

    cluster = Residents(operator=False, scheduler=False, console=parts).cluster(
        Settings(data=tmp_path, durability=Durability.NORMAL),
        report=lambda name, health: failed.set(),
    )
    cluster.reserve()
    console.reserve(cluster)
    link = console.link
    await cluster.start()
    try:
        await _until_it_answers(link)
        trigger.set()
        await asyncio.wait_for(failed.wait(), 30)
        await _until_it_answers(link)
        assert console.link == link
    finally:
        await cluster.stop()


async def _until_it_answers(link: str | None) -> None:
    assert link is not None
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(link, allow_redirects=False) as reply:
                    assert reply.status < 400
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
