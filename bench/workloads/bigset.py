"""One big set from its making to its end, beside as many pods made by plain requests."""

import asyncio
from pathlib import Path

import psutil
import uvloop

from bench.home.servers import NAMESPACE
from bench.report import Figures, Quantity, Row
from bench.workloads.askers import SetOwner, plain_requests
from bench.workloads.course import gain, run_course
from bench.workloads.inputs import Inputs
from bench.workloads.rest import come_to_rest
from bench.workloads.sight import looking
from bench.workloads.stages import PLAIN_NAMESPACE, Stage, Staging, cpu_seconds, peak_megabytes
from bench.workloads.writes import Writes, writes_so_far

_AIM_TIMES = 1.5
_AIM_WRITES = 3
_AIM_MEGABYTES = 150


def measure(staging: Staging, folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    """All rows about one set on one cluster."""
    with staging(folder, inputs.nodes) as stage:
        peer = uvloop.run(_plain(stage, folder, inputs)) if with_peer else {}
        with stage.operator() as operator:
            ours = uvloop.run(_ours(stage, operator, inputs))
    return [
        row
        for quantity, figure in ours.items()
        for row in _rows(stage.title, quantity, figure, peer.get(quantity))
    ]


def _rows(where: str, quantity: Quantity, ours: float, peer: float | None) -> list[Row]:
    title = f"{where}: {quantity.title}"
    row = Row(Quantity(title, quantity.unit, aim=quantity.aim), ours, peer)
    if not peer:
        return [row]
    times = Quantity(f"{title}, to plain requests", "×", aim=_AIM_TIMES)
    return [row, Row(times, ours / peer)]


async def _plain(stage: Stage, folder: Path, inputs: Inputs) -> Figures:
    async def rest() -> None:
        await asyncio.sleep(1)

    async with (
        looking(stage, PLAIN_NAMESPACE) as sight,
        plain_requests(stage, folder, inputs) as asker,
    ):
        first = await gain(asker, sight, f"{inputs.pods:,} pods", inputs.pods)
        return first | await run_course(asker, sight, inputs.pods, rest)


async def _ours(stage: Stage, operator: psutil.Process, inputs: Inputs) -> Figures:
    async def rest() -> None:
        await come_to_rest(operator, inputs.rest_looks)

    def written() -> Writes:
        return writes_so_far(stage.access) if stage.is_alone else Writes()

    async with looking(stage, NAMESPACE) as sight:
        asker = SetOwner(sight.client)
        await rest()
        used, writes = cpu_seconds(operator), written()
        figures = await gain(asker, sight, f"{inputs.pods:,} pods", inputs.pods)
        await sight.until(lambda: sight.available() == inputs.replicas, "the set to tell of it")
        await rest()
        figures |= _cost(f"{inputs.pods:,} pods", cpu_seconds(operator) - used, inputs.pods)
        figures |= _counted(written() - writes, inputs.pods)
        used, writes = cpu_seconds(operator), written()
        await asker.touch()
        await rest()
        title = "no-op reconcile"
        figures[Quantity(f"{title}: CPU", "ms")] = (cpu_seconds(operator) - used) * 1e3
        if stage.is_alone:
            # The touch itself is one of them.
            more = (written() - writes).total() - 1
            figures[Quantity(f"{title}: writes", "", aim=0)] = more
        figures |= await run_course(asker, sight, inputs.pods, rest)
        await rest()
        aim = _AIM_MEGABYTES if stage.is_alone else None
        peak = Quantity("most memory ever (RSS)", "MB", aim=aim)
        figures[peak] = peak_megabytes(operator)
        figures[Quantity("CPU, all in all", "s")] = cpu_seconds(operator)
    return figures


def _cost(title: str, seconds: float, pods: int) -> Figures:
    return {
        Quantity(f"{title}: CPU", "s"): seconds,
        Quantity(f"{title}: CPU per pod", "ms"): seconds / pods * 1e3,
    }


def _counted(writes: Writes, pods: int) -> Figures:
    if not writes:
        return {}
    figures: Figures = {
        Quantity("writes per pod", "/pod", aim=_AIM_WRITES): writes.total() / pods,
    }
    for (resource, verb), count in sorted(writes.items(), key=lambda each: -each[1]):
        figures[Quantity(f"writes per pod: {verb} {resource}", "/pod")] = count / pods
    return figures
