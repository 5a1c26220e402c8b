"""What `kilonova status` is told of the components of a cluster."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from kilonova.cli.rooms import Rooms
from kilonova.cli.status import Status, written
from kilonova.kube import ComponentHealth

pytestmark = pytest.mark.looptime


async def test_a_component_that_fails_is_degraded_until_it_has_recovered(tmp_path: Path) -> None:
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
