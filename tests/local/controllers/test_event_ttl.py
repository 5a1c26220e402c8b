"""Events are deleted an hour after they last occurred. Virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

from kilonova.api.times import format_micro_time, format_rfc3339
from tests.local.embedded_cluster import EVENTS, LoopClock, find, run_cluster, virtual_time

pytestmark = virtual_time


def event(name: str, **times: Any) -> Any:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Test", **times}


async def test_event_is_deleted_an_hour_after_it_last_occurred() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        later = LoopClock().now() + timedelta(minutes=30)
        await client.create(EVENTS, event("once"), "default")
        await client.create(
            EVENTS, event("counted", lastTimestamp=format_rfc3339(later)), "default"
        )
        series = {"count": 2, "lastObservedTime": format_micro_time(later)}
        await client.create(EVENTS, event("series", series=series), "default")
        await asyncio.sleep(59 * 60)
        assert await find(client, EVENTS, "once")
        await asyncio.sleep(3 * 60)
        assert await find(client, EVENTS, "once") is None
        assert await find(client, EVENTS, "counted")
        assert await find(client, EVENTS, "series")
        await asyncio.sleep(30 * 60)
        assert (await client.list(EVENTS)).items == []


async def test_an_old_event_that_arrives_now_stays_for_an_hour() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await client.create(EVENTS, event("old", lastTimestamp="2020-01-01T00:00:00Z"), "default")
        await asyncio.sleep(30 * 60)
        assert await find(client, EVENTS, "old")
