"""What a watch event costs our controller runtime: reflector, queue and controller.

The feed is in this process and made beforehand, so that only the runtime is measured: bytes
of watch lines in, a call of `reconcile` out, for each event. Events come in rounds over all
objects, each round when the last is reconciled, so that none is saved by two becoming one in
the queue. There is no peer here: the project does not depend on another runtime.
"""

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import psutil
import uvloop

from bench.home.feed import Feed, stored_pods
from bench.home.inputs import Inputs
from bench.report import Figures, Quantity
from kilonova.kube import Client, Controller, InProcessTransport, Key, Reflector, Resource, Watch
from kilonova.kube.resource import plain

_AIM_US = 25
_MANY = 1 << 16
_ONE = 0


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""


class _Pod(msgspec.Struct):
    """What a controller of pods usually reads of them."""

    metadata: _Meta
    spec: _Spec
    status: _Status


@dataclass(frozen=True, slots=True)
class _Case:
    """What is kept of a pod, and how large the chunks are in which events come."""

    how: str
    resource: Resource[Any]
    chunk: int
    aim: float | None


_USED = Resource("", "v1", "pods", "Pod", True, _Pod)
_WHOLE = plain("", "v1", "pods", "Pod", True)
_CASES = (
    _Case("fields used", _USED, _MANY, _AIM_US),
    _Case("fields used, one event a chunk", _USED, _ONE, _AIM_US),
    _Case("whole objects", _WHOLE, _MANY, None),
)


def measure(inputs: Inputs) -> Figures:
    """Each case in a process of its own."""
    figures: Figures = {}
    for case in _CASES:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            figures |= process.submit(_measure_here, inputs, case).result()
    return figures


def _measure_here(inputs: Inputs, case: _Case) -> Figures:
    return uvloop.run(_run(inputs, case))


async def _run(inputs: Inputs, case: _Case) -> Figures:
    feed = Feed(await stored_pods(inputs.objects), case.chunk)
    awaited = inputs.objects
    all_reconciled = asyncio.Event()

    async def reconcile(key: Key) -> None:
        nonlocal awaited
        assert key in reflector.store
        awaited -= 1
        if not awaited:
            all_reconciled.set()

    process = psutil.Process()
    memory = process.memory_info().rss
    reflector = Reflector(Client(InProcessTransport(feed.answer)), case.resource)
    controller = Controller("bench", reconcile, [Watch(reflector)])
    running = [asyncio.create_task(part.run()) for part in (reflector, controller)]
    await all_reconciled.wait()
    memory = process.memory_info().rss - memory
    cpu = time.process_time()
    rounds = max(1, inputs.events // inputs.objects)
    for _ in range(rounds):
        awaited = inputs.objects
        all_reconciled.clear()
        feed.send_round()
        await all_reconciled.wait()
    cpu = time.process_time() - cpu
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    per_event = cpu * 1e6 / (rounds * inputs.objects)
    return {
        Quantity(f"CPU per event, {case.how}", "µs", aim=case.aim): per_event,
        Quantity(f"{inputs.objects:,} pods in a store, {case.how} (RSS)", "MB"): memory / 1e6,
    }
