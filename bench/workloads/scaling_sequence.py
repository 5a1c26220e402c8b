"""The sequence of scaling steps, and the duration of each."""

from collections.abc import Awaitable, Callable

from bench.report import Measurements, Quantity
from bench.workloads.load_generators import LoadGenerator
from bench.workloads.observer import NamespaceObserver

WaitUntilIdle = Callable[[], Awaitable[None]]
"""Waits until the operator is idle."""


async def run_scaling_sequence(
    generator: LoadGenerator, observer: NamespaceObserver, pods: int, wait_until_idle: WaitUntilIdle
) -> Measurements:
    """Scale to half and back, to zero and back, and delete; starts with all pods ready."""
    half = pods // 2
    figures: Measurements = {}
    figures |= await scale_down(generator, observer, f"{pods:,} → {half:,} pods", half)
    await wait_until_idle()
    figures |= await scale_up(generator, observer, f"{half:,} → {pods:,} pods", pods)
    await wait_until_idle()
    figures |= await scale_down(generator, observer, f"{pods:,} pods → none", 0)
    await wait_until_idle()
    figures |= await scale_up(generator, observer, f"none → {pods:,} pods", pods)
    await wait_until_idle()
    start = await generator.delete_all()
    end = await observer.wait_until(observer.is_empty, "all objects to be deleted")
    figures[Quantity(f"{pods:,} pods and their owners deleted", "s")] = end - start
    return figures


async def scale_up(
    generator: LoadGenerator, observer: NamespaceObserver, title: str, pods: int
) -> Measurements:
    """Until so many pods exist, and until all of them are ready."""
    start = await generator.request_pods(pods)
    created = await observer.wait_until(lambda: observer.active == pods, f"{pods} pods")
    ready = await observer.wait_until(lambda: observer.ready == pods, f"{pods} ready pods")
    return {
        Quantity(f"{title}: created", "s"): created - start,
        Quantity(f"{title}: ready", "s"): ready - start,
    }


async def scale_down(
    generator: LoadGenerator, observer: NamespaceObserver, title: str, pods: int
) -> Measurements:
    """Until no more than so many pods are left."""
    start = await generator.request_pods(pods)
    end = await observer.wait_until(
        lambda: observer.count_pods() == pods, f"{pods} pods to be left"
    )
    return {Quantity(f"{title}: deleted", "s"): end - start}
