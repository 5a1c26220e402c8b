"""One big set from creation to deletion, compared with as many pods created by plain requests."""

import asyncio
from pathlib import Path

import psutil
import uvloop

from bench.home.servers import NAMESPACE
from bench.report import Measurements, Quantity, Row
from bench.workloads.clusters import (
    PLAIN_NAMESPACE,
    BenchmarkCluster,
    get_cpu_seconds,
    get_peak_megabytes,
)
from bench.workloads.inputs import Inputs
from bench.workloads.load_generators import SetLoadGenerator, running_plain_generator
from bench.workloads.observer import observing_namespace
from bench.workloads.quiescence import wait_until_idle
from bench.workloads.scaling_sequence import run_scaling_sequence, scale_up
from bench.workloads.write_counts import WriteCounts, fetch_write_counts

_TARGET_TIMES = 1.5
_TARGET_WRITES = 3
_TARGET_MEGABYTES = 150


def measure(cluster: BenchmarkCluster, folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    """All rows about one set on one cluster; it is empty before and after."""
    peer = uvloop.run(_measure_plain(cluster, folder, inputs)) if with_peer else {}
    with cluster.operator() as operator:
        ours = uvloop.run(_measure_ours(cluster, operator, inputs))
    return [
        row
        for quantity, figure in ours.items()
        for row in _build_rows(cluster.title, quantity, figure, peer.get(quantity))
    ]


def _build_rows(
    cluster_title: str, quantity: Quantity, ours: float, peer: float | None
) -> list[Row]:
    title = f"{cluster_title}: {quantity.title}"
    row = Row(Quantity(title, quantity.unit, target=quantity.target), ours, peer)
    if not peer:
        return [row]
    times = Quantity(f"{title}, relative to plain requests", "×", target=_TARGET_TIMES)
    return [row, Row(times, ours / peer)]


async def _measure_plain(cluster: BenchmarkCluster, folder: Path, inputs: Inputs) -> Measurements:
    async def wait() -> None:
        await asyncio.sleep(1)

    async with (
        observing_namespace(cluster, PLAIN_NAMESPACE) as observer,
        running_plain_generator(cluster, folder, inputs) as generator,
    ):
        first = await scale_up(generator, observer, f"{inputs.pods:,} pods", inputs.pods)
        return first | await run_scaling_sequence(generator, observer, inputs.pods, wait)


async def _measure_ours(
    cluster: BenchmarkCluster, operator: psutil.Process, inputs: Inputs
) -> Measurements:
    async def wait() -> None:
        await wait_until_idle(operator, inputs.rest_looks)

    def count_writes() -> WriteCounts:
        return fetch_write_counts(cluster.access) if cluster.has_own_process else WriteCounts()

    async with observing_namespace(cluster, NAMESPACE) as observer:
        generator = SetLoadGenerator(observer.client)
        await wait()
        used, writes = get_cpu_seconds(operator), count_writes()
        figures = await scale_up(generator, observer, f"{inputs.pods:,} pods", inputs.pods)
        await observer.wait_until(
            lambda: observer.count_available_replicas() == inputs.replicas, "the set's status"
        )
        await wait()
        figures |= _cost_figures(
            f"{inputs.pods:,} pods", get_cpu_seconds(operator) - used, inputs.pods
        )
        figures |= _write_figures(count_writes() - writes, inputs.pods)
        used, writes = get_cpu_seconds(operator), count_writes()
        await generator.update_annotation()
        await wait()
        title = "no-op reconcile"
        figures[Quantity(f"{title}: CPU", "ms")] = (get_cpu_seconds(operator) - used) * 1e3
        if cluster.has_own_process:
            # The annotation patch itself is one of them.
            extra_writes = (count_writes() - writes).total() - 1
            figures[Quantity(f"{title}: writes", "", target=0)] = extra_writes
        figures |= await run_scaling_sequence(generator, observer, inputs.pods, wait)
        await wait()
        target = _TARGET_MEGABYTES if cluster.has_own_process else None
        peak = Quantity("peak memory (RSS)", "MB", target=target)
        figures[peak] = get_peak_megabytes(operator)
        figures[Quantity("CPU, total", "s")] = get_cpu_seconds(operator)
    return figures


def _cost_figures(title: str, seconds: float, pods: int) -> Measurements:
    return {
        Quantity(f"{title}: CPU", "s"): seconds,
        Quantity(f"{title}: CPU per pod", "ms"): seconds / pods * 1e3,
    }


def _write_figures(writes: WriteCounts, pods: int) -> Measurements:
    if not writes:
        return {}
    figures: Measurements = {
        Quantity("writes per pod", "/pod", target=_TARGET_WRITES): writes.total() / pods,
    }
    for (resource, verb), count in sorted(writes.items(), key=lambda each: -each[1]):
        figures[Quantity(f"writes per pod: {verb} {resource}", "/pod")] = count / pods
    return figures
