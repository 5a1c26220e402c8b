"""Many sets of which nothing is asked."""

import asyncio
from pathlib import Path

import psutil
import uvloop

from bench.home.servers import NAMESPACE
from bench.report import Figures, Quantity, Row
from bench.workloads.askers import PODS_OF_A_REPLICA, set_body
from bench.workloads.inputs import Inputs
from bench.workloads.rest import come_to_rest
from bench.workloads.sight import Sight, looking
from bench.workloads.stages import Stage, Staging, cpu_seconds
from kilonova.kube import Client
from kilonova.workloads.resources import SETS

_AIM_PERCENT = 1
_AT_A_TIME = 32
_MORE = 20


def measure(staging: Staging, folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    """What they cost: alone, and for a change of another."""
    with staging(folder, inputs.nodes) as stage, stage.operator() as operator:
        figures = uvloop.run(_look(stage, operator, inputs))
    return [
        Row(Quantity(f"{stage.title}: {each.title}", each.unit, aim=each.aim), figure)
        for each, figure in figures.items()
    ]


async def _look(stage: Stage, operator: psutil.Process, inputs: Inputs) -> Figures:
    title = f"{inputs.idle_sets:,} idle sets"
    async with looking(stage, NAMESPACE) as sight:
        await _make(sight.client, range(1))
        await _until_ready(sight, 1)
        await come_to_rest(operator, inputs.rest_looks)
        alone = await _cost_of_scaling(sight, 1, operator, inputs.rest_looks)
        await _make(sight.client, range(1, inputs.idle_sets))
        await _until_ready(sight, inputs.idle_sets)
        await come_to_rest(operator, inputs.rest_looks)
        used = cpu_seconds(operator)
        await asyncio.sleep(inputs.idle_seconds)
        share = (cpu_seconds(operator) - used) / inputs.idle_seconds
        among = await _cost_of_scaling(sight, inputs.idle_sets, operator, inputs.rest_looks)
        memory = operator.memory_info().rss / 1e6
    return {
        Quantity(f"{title} at rest, of a core", "%", aim=_AIM_PERCENT): 100 * share,
        Quantity(f"{title}: memory (RSS)", "MB"): memory,
        Quantity(f"a set scaled by {_MORE} and back, alone: CPU", "ms"): alone * 1e3,
        Quantity(f"a set scaled by {_MORE} and back, among them: CPU", "ms"): among * 1e3,
    }


async def _make(client: Client, numbers: range) -> None:
    """Sets of one replica each."""
    left = iter(numbers)

    async def make_next() -> None:
        for number in left:
            await client.create(SETS, set_body(f"idle-{number}", 1), NAMESPACE)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_A_TIME):
            group.create_task(make_next())


async def _until_ready(sight: Sight, replicas: int) -> None:
    pods = PODS_OF_A_REPLICA * replicas
    what = f"exactly {pods} pods, all ready"
    await sight.until(lambda: sight.present() == pods == sight.ready, what)


async def _cost_of_scaling(
    sight: Sight, sets: int, operator: psutil.Process, rest_looks: int
) -> float:
    """Processor time of the operator for a set that gets more replicas and loses them again."""
    used = cpu_seconds(operator)
    for more in (_MORE, 0):
        await sight.client.set_scale(SETS, "idle-0", NAMESPACE, 1 + more)
        await _until_ready(sight, sets + more)
        await come_to_rest(operator, rest_looks)
    return cpu_seconds(operator) - used
