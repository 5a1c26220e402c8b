"""A deployment controller that crashes between any two writes, and another that continues."""

import asyncio
from itertools import count

import pytest

from kilonova.kube import Client
from tests.harness.campaigns import select_cases
from tests.instances.deployment.deployment_cluster import (
    REVISIONS,
    DeploymentCluster,
    condition_of,
    deployment_cluster,
    running_controller,
)
from tests.local.embedded_cluster import virtual_time, wait_for_condition
from tests.workloads.crashing_operator import CrashingTransport, is_write

pytestmark = [virtual_time, pytest.mark.campaign]

WRITES_OF_A_START = 7
"""Revision, three instances, statuses."""
WRITES_OF_AN_UPDATE = 18
"""Revision, three deletions, three creations, statuses."""


def cases(writes: int, number: int) -> list[int]:
    return select_cases(list(range(1, writes + 1)), number)


async def crash_once(cluster: DeploymentCluster, writes: int, *, last_write_arrives: bool) -> None:
    """Run a controller until it crashes, or has nothing more to write."""
    inner = cluster.client._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
    transport = CrashingTransport(
        inner, writes, last_write_arrives=last_write_arrives, counts_as_write=is_write
    )
    numbers = count()
    client = Client(transport, field_manager="instances")
    async with running_controller(client, lambda: f"first-{next(numbers)}", crashes=True):
        try:
            async with asyncio.timeout(120):
                await transport.crashed.wait()
        except TimeoutError:
            return


async def wait_for_release(cluster: DeploymentCluster, release: str) -> None:
    """Wait until three instances of a release are ready, and the update is complete."""

    async def is_done() -> bool:
        status = await cluster.get_status()
        reason = condition_of(status, "Progressing").get("reason")
        releases = await cluster.list_releases()
        return releases == [release] * 3 and reason == "NewRevisionAvailable"

    await wait_for_condition(is_done, within=600)
    assert len(await cluster.list_ready()) == 3


@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_A_START, 4))
async def test_start_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    numbers = count()
    async with deployment_cluster(controller=False) as cluster:
        await cluster.create()
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controller(cluster.client, lambda: f"second-{next(numbers)}"):
            await wait_for_release(cluster, "r1")
        assert len((await cluster.client.list(REVISIONS, cluster.namespace)).items) == 1
        # None was made twice, and deleted again.
        events = [reason for reason, _ in await cluster.list_events()]
        assert "SuccessfulDelete" not in events


@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_AN_UPDATE, 5))
async def test_update_goes_on_after_a_crash_within_its_bounds(writes: int, arrives: bool) -> None:
    numbers, least = count(), 3

    async def watch() -> None:
        nonlocal least
        while True:
            least = min(least, len(await cluster.list_ready()))
            await asyncio.sleep(0.5)

    async with deployment_cluster(controller=False) as cluster:
        await cluster.create()
        async with running_controller(cluster.client, lambda: f"first-{next(numbers)}"):
            await wait_for_release(cluster, "r1")
        watching = asyncio.create_task(watch())
        await cluster.release("r2")
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controller(cluster.client, lambda: f"second-{next(numbers)}"):
            await wait_for_release(cluster, "r2")
        watching.cancel()
        await asyncio.wait({watching})
        assert least == 2
        history = (await cluster.get_status())["history"]
        assert [(each["revision"], each["release"]) for each in history] == [(2, "r2"), (1, "r1")]
