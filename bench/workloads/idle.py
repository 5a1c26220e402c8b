"""Many idle sets."""

import asyncio
from pathlib import Path

import psutil
import uvloop

from bench.home.servers import NAMESPACE
from bench.report import Measurements, Quantity, Row
from bench.workloads.clusters import BenchmarkCluster, get_cpu_seconds
from bench.workloads.inputs import Inputs
from bench.workloads.load_generators import PODS_OF_A_REPLICA, build_set
from bench.workloads.observer import NamespaceObserver, observing_namespace
from bench.workloads.quiescence import wait_until_idle
from kilonova.kube import Client
from kilonova.workloads.resources import SETS

_TARGET_PERCENT = 1
_CONCURRENCY = 32


def measure(cluster: BenchmarkCluster, folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    """Their cost: idle, and for a change of another set."""
    with cluster.operator() as operator:
        figures = uvloop.run(_measure_idle(cluster, operator, inputs))
    return [
        Row(Quantity(f"{cluster.title}: {each.title}", each.unit, target=each.target), figure)
        for each, figure in figures.items()
    ]


async def _measure_idle(
    cluster: BenchmarkCluster, operator: psutil.Process, inputs: Inputs
) -> Measurements:
    title = f"{inputs.idle_sets:,} idle sets"
    async with observing_namespace(cluster, NAMESPACE) as observer:
        await _create_sets(observer.client, range(1))
        await _wait_until_ready(observer, 1)
        await wait_until_idle(operator, inputs.rest_looks)
        alone = await _measure_scaling_cost(observer, 1, operator, inputs)
        await _create_sets(observer.client, range(1, inputs.idle_sets))
        await _wait_until_ready(observer, inputs.idle_sets)
        await wait_until_idle(operator, inputs.rest_looks)
        used = get_cpu_seconds(operator)
        await asyncio.sleep(inputs.idle_seconds)
        share = (get_cpu_seconds(operator) - used) / inputs.idle_seconds
        among = await _measure_scaling_cost(observer, inputs.idle_sets, operator, inputs)
        memory = operator.memory_info().rss / 1e6
    scaled = f"a set scaled by {inputs.scale_step} and back"
    return {
        Quantity(f"{title}: CPU, of one core", "%", target=_TARGET_PERCENT): 100 * share,
        Quantity(f"{title}: memory (RSS)", "MB"): memory,
        Quantity(f"{scaled}, alone: CPU", "ms"): alone * 1e3,
        Quantity(f"{scaled}, among them: CPU", "ms"): among * 1e3,
    }


async def _create_sets(client: Client, numbers: range) -> None:
    """Create sets of one replica each."""
    remaining = iter(numbers)

    async def make_next() -> None:
        for number in remaining:
            await client.create(SETS, build_set(f"idle-{number}", 1), NAMESPACE)

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENCY):
            group.create_task(make_next())


async def _wait_until_ready(observer: NamespaceObserver, replicas: int) -> None:
    pods = PODS_OF_A_REPLICA * replicas
    what = f"exactly {pods} pods, all ready"
    await observer.wait_until(lambda: observer.count_pods() == pods == observer.ready, what)


async def _measure_scaling_cost(
    observer: NamespaceObserver, sets: int, operator: psutil.Process, inputs: Inputs
) -> float:
    """CPU of the operator for a set that is scaled out and in again."""
    used = get_cpu_seconds(operator)
    for extra in (inputs.scale_step, 0):
        await observer.client.set_scale(SETS, "idle-0", NAMESPACE, 1 + extra)
        await _wait_until_ready(observer, sets + extra)
        await wait_until_idle(operator, inputs.rest_looks)
    return get_cpu_seconds(operator) - used
