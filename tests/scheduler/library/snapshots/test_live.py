"""Snapshots from informers equal captured ones, and change with what placement depends on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from kilonova.kube import NO_RUNTIME_METRICS, Client
from kilonova.kube.events import random_id
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from kilonova.scheduler.library.snapshots.live import LiveSnapshots
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    fleet,
    pod,
    scheduled_cluster,
)

pytestmark = virtual_time


@asynccontextmanager
async def live_snapshots(client: Client) -> AsyncGenerator[LiveSnapshots]:
    """Snapshots that have synced."""
    clock = LoopClock()
    found = LiveSnapshots(
        client,
        SchedulerSettings(),
        now=clock.now,
        monotonic=clock.monotonic,
        runtime_metrics=NO_RUNTIME_METRICS,
        new_id=random_id,
    )
    assert found.take() is None
    task = asyncio.create_task(found.run())
    try:
        await advance_time()
        yield found
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_live_snapshot_equals_a_captured_one_as_the_cluster_changes() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        async with live_snapshots(client) as snapshots:
            for number in range(2):
                names = await create_gang(client, f"g{number}", 2, gpus=4)
                await wait_for_condition(are_all_placed(client, names))
                await client.create(PODS, pod(f"huge-{number}", 9), "default")
                await advance_time()
                live = snapshots.take()
                captured = (await capture_snapshot(client, now=LoopClock().now)).cluster_snapshot
                assert live is not None
                assert replace(live, now=captured.now) == captured
                assert len(live.placements) == 2 * (number + 1)


async def test_version_changes_with_pods_and_nodes_and_not_with_heartbeats() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        async with live_snapshots(client) as snapshots:
            await advance_time()
            before = snapshots.version
            await advance_time(120)
            assert snapshots.version == before
            names = await create_gang(client, "g", 2, gpus=4)
            await wait_for_condition(are_all_placed(client, names))
            await advance_time()
            after = snapshots.version
            assert after > before
            node = (await client.list(NODES)).items[0]["metadata"]["name"]
            await client.patch(NODES, node, {"spec": {"unschedulable": True}})
            await advance_time()
            assert snapshots.version > after
