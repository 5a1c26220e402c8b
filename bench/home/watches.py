"""How long a change takes to reach many watches, when changes come at a steady pace.

This process writes: it patches an annotation that says when it did so. Another one holds
the watches and looks for that annotation in what they receive. Both read the same monotonic
clock, so that the time from sending a write to its arrival is a subtraction. A delivery that
never happens counts as one that takes for ever.
"""

import asyncio
import math
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.home.inputs import Inputs
from bench.home.pods import encoded, minimal_pod
from bench.home.servers import NAMESPACE, Server, Start
from bench.home.watchers import SENT, Deliveries, hold_watches
from bench.home.wire import Connection, connections, request
from bench.report import Figures, Quantity

_AIM_MS = 100
_PODS = 100
_PATIENCE_SECONDS = 30
_PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Audience:
    """Who watches what: the pods that change, and the queries of the watches."""

    title: str
    pods: Sequence[bytes]
    selectors: Sequence[str]
    receivers: int
    """How many watches each change goes to."""


def measure(start: Start, folder: Path, inputs: Inputs) -> Figures:
    """Delivery times when every watch gets every change, and when each gets its node's only."""
    names = [f"watched-{number}" for number in range(inputs.watches)]
    every = Audience(
        f"{inputs.watches:,} watches",
        [encoded(minimal_pod(name=name)) for name in names[:_PODS]],
        [""] * inputs.watches,
        inputs.watches,
    )
    own = Audience(
        f"{inputs.watches:,} watches of a node each",
        [encoded(minimal_pod(node=f"node-{name}", name=name)) for name in names],
        [f"&fieldSelector=spec.nodeName%3Dnode-{name}" for name in names],
        1,
    )
    figures: Figures = {}
    for number, audience in enumerate((every, own)):
        fresh = folder / str(number)
        fresh.mkdir()
        with start(fresh) as server:
            server.make_namespace()
            figures |= deliver(server, audience, inputs)
    return figures


def deliver(server: Server, audience: Audience, inputs: Inputs) -> Figures:
    """Make the pods that will change, change them, and tell how long it took to be seen."""
    version = uvloop.run(_create(server, audience.pods))
    changes = inputs.events_per_second * inputs.watch_seconds
    expected = changes * audience.receivers
    paths = [f"{_PODS_PATH}?watch=1{selector}" for selector in audience.selectors]
    spawn = multiprocessing.get_context("spawn")
    pipe, theirs = spawn.Pipe()
    watchers = spawn.Process(
        target=hold_watches,
        args=(server.access, paths, version, changes, expected, theirs),
        daemon=True,
    )
    watchers.start()
    theirs.close()
    try:
        pipe.recv()
    except EOFError:
        raise RuntimeError("the process that holds the watches could not open them") from None
    cpu = server.cpu_seconds()
    uvloop.run(_write_steadily(server, len(audience.pods), changes, inputs))
    if not pipe.poll(_PATIENCE_SECONDS):
        pipe.send("enough")
    deliveries: Deliveries = pipe.recv()
    cpu = server.cpu_seconds() - cpu
    watchers.join()
    took = sorted(deliveries.took)
    title = f"{audience.title} × {inputs.events_per_second} events/s"
    return {
        Quantity(f"{title}, p50", "ms"): _percentile(took, expected, 0.50) * 1e3,
        Quantity(f"{title}, p99", "ms", aim=_AIM_MS): _percentile(took, expected, 0.99) * 1e3,
        Quantity(f"{title}, delivered", "%", "more", aim=100): 100 * len(took) / expected,
        Quantity(f"{title}, watches resumed", ""): deliveries.resumed,
        Quantity(f"{title}, CPU of the server per event", "µs"): cpu * 1e6 / changes,
        Quantity(f"{title}, CPU of the watchers per event", "µs"): deliveries.cpu * 1e6 / changes,
    }


async def _create(server: Server, pods: Sequence[bytes]) -> str:
    """Create the pods that will change; the version of the collection after that."""
    async with connections(server.access, 1) as (connection,):
        for body in pods:
            await connection.ask(request("POST", _PODS_PATH, body))
    _, listing = server.access.ask("GET", f"{_PODS_PATH}?limit=1")
    return listing["metadata"]["resourceVersion"]


async def _write_steadily(server: Server, pods: int, changes: int, inputs: Inputs) -> None:
    """Patch one pod after the other, at a pace that does not wait for slow answers."""
    width, per_second = inputs.connections, inputs.events_per_second
    async with connections(server.access, width) as opened, asyncio.TaskGroup() as group:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.monotonic()
        for number in range(changes):
            await asyncio.sleep(began + number / per_second - time.monotonic())
            sent = time.monotonic_ns()
            group.create_task(_patch(free, f"watched-{number % pods}", f"{number}-{sent}"))


async def _patch(free: "asyncio.Queue[Connection]", name: str, mark: str) -> None:
    body = f'{{"metadata":{{"annotations":{{"{SENT}":"{mark}"}}}}}}'.encode()
    message = request("PATCH", f"{_PODS_PATH}/{name}", body, _MERGE_PATCH)
    connection = await free.get()
    await connection.ask(message)
    free.put_nowait(connection)


def _percentile(ordered: Sequence[float], expected: int, share: float) -> float:
    position = math.ceil(expected * share) - 1
    return ordered[position] if position < len(ordered) else math.inf
