"""CPU per watch event of our controller runtime: reflector, work queue and controller.

The events are prepared in this process beforehand, so that only the runtime is measured: bytes of
watch lines in, a call of `reconcile` out, for each event. Events are sent in rounds over all
objects, each round when the last is reconciled, so that no two events are merged in the work queue.
There is no peer: the project does not depend on another runtime.
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

from bench.home.inputs import Inputs
from bench.home.watch_feed import WatchFeed, build_stored_pods
from bench.report import Measurements, Quantity
from kilonova.kube import Client, Controller, InProcessTransport, Key, Reflector, Resource, Watch
from kilonova.kube.client.resource import unstructured_resource

_TARGET_US = 25
_BATCHED_EVENTS = 1 << 16
_SINGLE_EVENT = 0


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
    """The fields of pods that a controller usually reads."""

    metadata: _Meta
    spec: _Spec
    status: _Status


@dataclass(frozen=True, slots=True)
class _Case:
    """Which fields of a pod are decoded, and the size of the chunks in which events arrive."""

    title: str
    resource: Resource[Any]
    chunk: int
    target: float | None


_USED_FIELDS_RESOURCE = Resource("", "v1", "pods", "Pod", True, _Pod)
_WHOLE_OBJECT_RESOURCE = unstructured_resource("", "v1", "pods", "Pod", True)
_CASES = (
    _Case("fields used", _USED_FIELDS_RESOURCE, _BATCHED_EVENTS, _TARGET_US),
    _Case("fields used, one event per chunk", _USED_FIELDS_RESOURCE, _SINGLE_EVENT, _TARGET_US),
    _Case("whole objects", _WHOLE_OBJECT_RESOURCE, _BATCHED_EVENTS, None),
)


def measure(inputs: Inputs) -> Measurements:
    """Each case in its own process."""
    figures: Measurements = {}
    for case in _CASES:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            figures |= process.submit(_measure_in_process, inputs, case).result()
    return figures


def _measure_in_process(inputs: Inputs, case: _Case) -> Measurements:
    return uvloop.run(_run_controller(inputs, case))


async def _run_controller(inputs: Inputs, case: _Case) -> Measurements:
    feed = WatchFeed(await build_stored_pods(inputs.objects), case.chunk)
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
    reflector = Reflector(Client(InProcessTransport(feed.handle_request)), case.resource)
    controller = Controller("bench", reconcile, [Watch(reflector)])
    running = [asyncio.create_task(part.run()) for part in (reflector, controller)]
    await all_reconciled.wait()
    memory = process.memory_info().rss - memory
    cpu = time.process_time()
    rounds = max(1, inputs.events // inputs.objects)
    for _ in range(rounds):
        awaited = inputs.objects
        all_reconciled.clear()
        feed.send_events()
        await all_reconciled.wait()
    cpu = time.process_time() - cpu
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    per_event = cpu * 1e6 / (rounds * inputs.objects)
    return {
        Quantity(f"CPU per event, {case.title}", "µs", target=case.target): per_event,
        Quantity(f"{inputs.objects:,} pods in a store, {case.title} (RSS)", "MB"): memory / 1e6,
    }
