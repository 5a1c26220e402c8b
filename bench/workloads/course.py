"""What is asked for, one after the other, and how long each takes."""

from collections.abc import Awaitable, Callable

from bench.report import Figures, Quantity
from bench.workloads.askers import Asker
from bench.workloads.sight import Sight

Rest = Callable[[], Awaitable[None]]
"""Waits until nobody has anything more to do."""


async def run_course(asker: Asker, sight: Sight, pods: int, rest: Rest) -> Figures:
    """Half the pods away and back, all away and back, and the end; all are there and ready."""
    half = pods // 2
    figures: Figures = {}
    figures |= await lose(asker, sight, f"{pods:,} → {half:,} pods", half)
    await rest()
    figures |= await gain(asker, sight, f"{half:,} → {pods:,} pods", pods)
    await rest()
    figures |= await lose(asker, sight, f"{pods:,} pods → none", 0)
    await rest()
    figures |= await gain(asker, sight, f"none → {pods:,} pods", pods)
    await rest()
    began = await asker.leave()
    ended = await sight.until(sight.is_empty, "nothing to be left")
    figures[Quantity(f"{pods:,} pods deleted with all that made them", "s")] = ended - began
    return figures


async def gain(asker: Asker, sight: Sight, title: str, pods: int) -> Figures:
    """Until so many pods are there, and until all of them are ready."""
    began = await asker.have(pods)
    created = await sight.until(lambda: sight.there == pods, f"{pods} pods")
    ready = await sight.until(lambda: sight.ready == pods, f"{pods} ready pods")
    return {
        Quantity(f"{title}: created", "s"): created - began,
        Quantity(f"{title}: ready", "s"): ready - began,
    }


async def lose(asker: Asker, sight: Sight, title: str, pods: int) -> Figures:
    """Until no more than so many pods are left."""
    began = await asker.have(pods)
    left = await sight.until(lambda: sight.present() == pods, f"{pods} pods to be left")
    return {Quantity(f"{title}: gone", "s"): left - began}
