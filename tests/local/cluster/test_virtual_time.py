"""A cluster in virtual time: an hour in a moment, and the same hour every time."""

import asyncio
import hashlib
import time
from typing import Any

import pytest

from kilonova.cli.residents import Residents
from kilonova.kube import Client
from kilonova.local import virtual
from kilonova.local.cluster import Settings
from kilonova.local.nodes.fleet import Failures, Fleet, Gpu, NodeGroup
from tests.local.embedded_cluster import DEFINITIONS, EVENTS, LEASES, NODES, PODS, pod

FLEET = Fleet(
    nodes=(
        NodeGroup(
            "h100",
            4,
            gpu=Gpu("NVIDIA-H100-80GB-HBM3", 8),
            failures=Failures(pod_life="10m", node_life="20m"),
        ),
    ),
    seed=7,
)
HOUR = 3600.0


async def _hour(seed: int) -> str:
    """An hour with pods that crash on nodes that fail; what is left of it."""
    build = Residents(operator=False).cluster
    async with virtual.cluster(Settings(fleet=FLEET), seed=seed, build=build) as cluster:
        client = cluster.client("test")
        for number in range(12):
            made = pod(f"worker-{number}", requests={"cpu": "1"})
            await client.create(PODS, made, "default")
            await asyncio.sleep(60)
        await asyncio.sleep(HOUR - 12 * 60)
        return await _digest(client)


async def _digest(client: Client) -> str:
    kept = hashlib.sha256()
    for resource in (NODES, LEASES, PODS, EVENTS, DEFINITIONS):
        for each in (await client.list(resource)).items:
            kept.update(repr(each).encode())
    return kept.hexdigest()


def test_an_hour_with_a_seed_is_the_same_hour_every_time() -> None:
    started = time.monotonic()
    first = virtual.run(lambda: _hour(3), seed=3)
    took = time.monotonic() - started
    assert virtual.run(lambda: _hour(3), seed=3) == first
    assert took < HOUR / 60


def test_another_seed_is_another_hour() -> None:
    assert virtual.run(lambda: _hour(3), seed=3) != virtual.run(lambda: _hour(4), seed=4)


def test_time_of_day_and_timers_go_together() -> None:
    async def main() -> tuple[Any, float]:
        async with virtual.cluster() as cluster:
            before = cluster.clock.now()
            await asyncio.sleep(90 * 60)
            return cluster.clock.now() - before, asyncio.get_running_loop().time()

    passed, elapsed = virtual.run(main)
    assert passed.total_seconds() == pytest.approx(90 * 60)
    assert elapsed >= 90 * 60


@pytest.mark.parametrize("seed", range(5))
def test_tasks_go_in_an_order_that_the_seed_chooses(seed: int) -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def step(number: int) -> None:
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(step(number))
        return order

    order = virtual.run(main, seed=seed)
    assert sorted(order) == list(range(8))
    assert virtual.run(main, seed=seed) == order
    assert virtual.run(main) == list(range(8))
    assert any(virtual.run(main, seed=other) != order for other in range(5))
