"""A cluster in virtual time: an hour in a moment, and reproducible."""

import asyncio
import hashlib
import time
from typing import Any

import pytest

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.local import virtual_time
from kilonova.local.clock import Clock, IdGenerator
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.simnodes.fleet.model import FailureRates, Fleet, GpuSpec, NodeGroup
from tests.local.embedded_cluster import DEFINITIONS, EVENTS, LEASES, NODES, PODS, pod

FLEET = Fleet(
    nodes=(
        NodeGroup(
            "h100",
            4,
            gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8),
            failures=FailureRates(pod_mtbf="10m", node_mtbf="20m"),
        ),
    ),
    seed=7,
)
HOUR = 3600.0


async def _hour(seed: int) -> str:
    """An hour with crashing pods on failing nodes; returns the final state."""

    def build(settings: ClusterSettings, clock: Clock, ids: IdGenerator) -> EmbeddedCluster:
        return assemble_cluster(("scheduler",), settings, clock, ids).cluster

    async with virtual_time.virtual_cluster(
        ClusterSettings(fleet=FLEET), seed=seed, build=build
    ) as cluster:
        client = cluster.client("test")
        for number in range(12):
            made = pod(f"worker-{number}", requests={"cpu": "1"})
            await client.create(PODS, made, "default")
            await asyncio.sleep(60)
        await asyncio.sleep(HOUR - 12 * 60)
        return await _digest(client)


async def _digest(client: Client) -> str:
    retained = hashlib.sha256()
    for resource in (NODES, LEASES, PODS, EVENTS, DEFINITIONS):
        for each in (await client.list(resource)).items:
            retained.update(repr(each).encode())
    return retained.hexdigest()


def test_same_seed_gives_the_same_run() -> None:
    started = time.process_time()
    first = virtual_time.run(lambda: _hour(3), seed=3)
    took = time.process_time() - started
    assert virtual_time.run(lambda: _hour(3), seed=3) == first
    assert took < HOUR / 60


def test_another_seed_gives_another_run() -> None:
    assert virtual_time.run(lambda: _hour(3), seed=3) != virtual_time.run(lambda: _hour(4), seed=4)


def test_wall_clock_and_timers_advance_together() -> None:
    async def main() -> tuple[Any, float]:
        async with virtual_time.virtual_cluster() as cluster:
            before = cluster.clock.now()
            await asyncio.sleep(90 * 60)
            return cluster.clock.now() - before, asyncio.get_running_loop().time()

    passed, elapsed = virtual_time.run(main)
    assert passed.total_seconds() == pytest.approx(90 * 60)
    assert elapsed >= 90 * 60


@pytest.mark.parametrize("seed", range(5))
def test_seed_chooses_the_task_order(seed: int) -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def step(number: int) -> None:
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(step(number))
        return order

    order = virtual_time.run(main, seed=seed)
    assert sorted(order) == list(range(8))
    assert virtual_time.run(main, seed=seed) == order
    assert virtual_time.run(main) == list(range(8))
    assert any(virtual_time.run(main, seed=other) != order for other in range(5))
