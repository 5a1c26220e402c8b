"""What the exporter of an agent serves: simulated hardware, objects of an embedded cluster."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.node_readings import LocalReadings
from kilonova.gpu.devices.errors import GpuErrorKind
from kilonova.gpu.devices.fault_injection import Fault, FaultyBackend
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.exporter.collector import render
from tests.gpu.agent.local_agents import NODE, build_backend, create_pod, run_agent, run_node
from tests.gpu.exporter.readings import Exposition
from tests.local.embedded_cluster import (
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

P = ParamSpec("P")
T = TypeVar("T")


async def _inline(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


@asynccontextmanager
async def run_readings(
    local: LocalAgent, pods_of: Callable[[Iterable[int]], Mapping[int, str]] = lambda pids: {}
) -> AsyncGenerator[LocalReadings]:
    readings = LocalReadings(local, LoopClock().now, pods_of=pods_of, in_thread=_inline)
    task = asyncio.create_task(readings.run())
    try:
        yield readings
    finally:
        task.cancel()
        await asyncio.wait({task})


async def scrape(readings: LocalReadings) -> Exposition:
    return Exposition(render(await readings.read())[0].decode())


async def wait_for_series(readings: LocalReadings, name: str, **labels: str) -> Exposition:
    async def exists() -> bool:
        return bool((await scrape(readings)).find(name, **labels))

    await wait_for_condition(exists)
    return await scrape(readings)


def uuids_of(backend: SimulatedBackend) -> list[str]:
    return [each.uuid for each in backend.read_inventory().devices]


async def test_pods_that_share_a_device_are_told_apart_by_their_processes(tmp_path: Path) -> None:
    backend = build_backend()
    async with run_node(["0:500", "0:500"]) as (_, client):
        pods = [await client.get(PODS, f"pod-{number}", "default") for number in range(2)]
        owners = {100 + n: pod["metadata"]["uid"] for n, pod in enumerate(pods)}
        asked: list[set[int]] = []

        def pods_of(pids: Iterable[int]) -> Mapping[int, str]:
            asked.append(set(pids))
            return {pid: owners[pid] for pid in asked[-1] if pid in owners}

        backend.set_load(uuids_of(backend)[0], *(ProcessLoad(pid, 0.25, 1 << 30) for pid in owners))
        async with (
            run_agent(client, backend, tmp_path) as local,
            run_readings(local, pods_of) as readings,
        ):
            found = await wait_for_series(readings, "DCGM_FI_DEV_GPU_UTIL", pod="pod-1")
            assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="pod-0", vgpu="0") == 25
            assert found.value("kilonova_gpu_pod_utilization_ratio", pod="pod-0") == 0.5
            await advance_time(120)
            assert asked == [{100, 101}], "processes are looked up once"


async def test_mig_allocations_are_counted_from_the_start_of_the_agent(tmp_path: Path) -> None:
    async with (
        run_node(["0:1g.10gb@0"]) as (_, client),
        run_agent(client, build_backend(), tmp_path) as local,
        run_readings(local) as readings,
    ):
        found = await wait_for_series(readings, "DCGM_FI_DEV_FB_USED", pod="pod-0")
        assert found.value("kgwe_mig_allocations_total", node=NODE) == 0
        await create_pod(client, "later", "0:1g.10gb@1")
        await client.delete(PODS, "pod-0", "default", grace_period_seconds=0)
        found = await wait_for_series(readings, "DCGM_FI_DEV_FB_USED", pod="later")
        assert found.value("kgwe_mig_allocations_total") == 1
        assert found.value("kgwe_mig_releases_total") == 1


async def test_lost_gpu_and_its_xid_are_exported(tmp_path: Path) -> None:
    backend = build_backend()
    async with (
        run_node() as (_, client),
        run_agent(client, backend, tmp_path) as local,
        run_readings(local) as readings,
    ):
        await wait_for_series(readings, "kilonova_gpu_answers", gpu="0")
        backend.lose(uuids_of(backend)[0], until="reboot")
        found = await wait_for_series(readings, "kilonova_gpu_xid_errors_total", xid="79")
        assert found.value("kilonova_gpu_xid_errors_total", gpu="0", action="RestartNode") == 1
        await advance_time(60)
        found = await scrape(readings)
        assert found.value("kilonova_gpu_answers", gpu="0") == 0
        assert found.value("kilonova_gpu_health", gpu="0", state="Unhealthy") == 1
        assert found.value("kgwe_gpu_health_status", gpu_uuid=uuids_of(backend)[0]) == 0


async def test_scrape_reads_no_device_and_shows_how_old_the_telemetry_is(tmp_path: Path) -> None:
    backend = FaultyBackend(build_backend())
    async with (
        run_node() as (_, client),
        run_agent(client, backend, tmp_path) as local,
        run_readings(local) as readings,
    ):
        await wait_for_series(readings, "kilonova_gpu_answers", gpu="0")
        backend.inject(Fault("read_telemetry", GpuErrorKind.TIMEOUT, times=None))
        await advance_time(300)
        calls = len(backend.calls)
        found = await scrape(readings)
        assert len(backend.calls) == calls
        age = LoopClock().now().timestamp() - found.value(
            "kilonova_gpu_telemetry_timestamp_seconds", node=NODE
        )
        assert age == pytest.approx(300, abs=35)
        assert found.find("DCGM_FI_DEV_GPU_TEMP"), "the last telemetry is served"
