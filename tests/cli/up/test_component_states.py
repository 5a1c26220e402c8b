"""Component states that `kilonova status` shows."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp
import pytest

from kilonova.cli.up.components.console import EmbeddedConsole
from kilonova.cli.up.components.states import ComponentStates
from kilonova.cli.up.status import Status, format_status
from kilonova.component.embedded import EmbeddedContext
from kilonova.component.health import describe_failure
from kilonova.kube import ComponentHealth, Runnable
from kilonova.local.apiserver.storage import Durability
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster


@pytest.mark.looptime
async def test_failed_component_is_degraded_until_it_recovers() -> None:
    states = ComponentStates(["api", "scheduler"])
    observed: list[tuple[str, str]] = []

    def record(current: Mapping[str, str], problems: Mapping[str, str]) -> None:
        observed.append((current["scheduler"], problems.get("scheduler", "")))

    async def never() -> None:
        await asyncio.Event().wait()

    states.add("scheduler", never)
    starting = asyncio.create_task(states.wait_started(record))
    await asyncio.sleep(1)
    assert observed == [("starting", "")]
    states.report_health("scheduler", ComponentHealth(1, "scheduler failed: boom"))
    # A failed component does not block the start.
    await starting
    states.report_health("scheduler", ComponentHealth(2, "scheduler failed: boom"))
    states.report_health("scheduler", ComponentHealth())
    assert observed[1:] == [
        ("degraded", "failed once and is restarted with backoff: scheduler failed: boom"),
        ("degraded", "failed 2 times and is restarted with backoff: scheduler failed: boom"),
        ("running", ""),
    ]


def test_status_reports_why_a_component_is_degraded() -> None:
    status = Status(
        running=True,
        data="/data",
        components={"api": "running", "scheduler": "degraded"},
        problems={"scheduler": "failed once and is restarted with backoff: scheduler failed: boom"},
    )
    lines = [line.split(maxsplit=1) for line in format_status(status, "table").splitlines()]
    assert ["components", "api running, scheduler degraded"] in lines
    reason = "scheduler failed once and is restarted with backoff: scheduler failed: boom"
    assert ["degraded", reason] in lines


def test_failure_is_told_on_one_line() -> None:
    health = ComponentHealth(3, "the proxy exited with 1:\n  \x1b[31mno route\x1b[0m\n")
    text = "failed 3 times and is restarted with backoff: the proxy exited with 1: [31mno route[0m"
    assert describe_failure(health) == text


class FailingRunnable:
    """A runnable that fails on a trigger."""

    name = "bomb"

    def __init__(self, trigger: asyncio.Event) -> None:
        self._trigger = trigger

    async def run(self) -> None:
        await self._trigger.wait()
        raise RuntimeError("boom")


async def test_restarted_console_has_the_same_address(tmp_path: Path) -> None:
    trigger, failed = asyncio.Event(), asyncio.Event()

    def build_runnables(_: EmbeddedCluster) -> Sequence[Runnable]:
        return [
            *console.build_runnables(),
            *(() if trigger.is_set() else (FailingRunnable(trigger),)),
        ]

    cluster = EmbeddedCluster(
        ClusterSettings(data=tmp_path, durability=Durability.NORMAL),
        components={"console": build_runnables},
        report=lambda name, health: failed.set(),
    )
    console = EmbeddedConsole(EmbeddedContext("console", cluster, {}))
    cluster.claim_port()
    console.claim_port()
    link = console.link
    await cluster.start()
    try:
        await _wait_for_answer(link)
        trigger.set()
        await asyncio.wait_for(failed.wait(), 30)
        await _wait_for_answer(link)
        assert console.link == link
    finally:
        await cluster.stop()


async def _wait_for_answer(link: str | None) -> None:
    assert link is not None
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(link, allow_redirects=False) as reply:
                    assert reply.status < 400
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
