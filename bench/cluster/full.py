"""A cluster full of pods: how long until they run, what it holds, how fast it answers."""

import asyncio
import statistics
import time
from pathlib import Path

import uvloop

from bench.cluster.inputs import Inputs
from bench.cluster.looking import (
    PODS_PATH,
    are_ready,
    are_running,
    settle,
    share_of_a_core,
    wait_until,
)
from bench.cluster.worlds import World
from bench.home.inputs import Inputs as WatchInputs
from bench.home.lists import list_seconds
from bench.home.pods import encoded, minimal_pod
from bench.home.servers import Server
from bench.home.watches import Audience, deliver
from bench.home.wire import Connection, connections, request
from bench.report import Figures, Quantity

_WATCHED = 100


def measure(world: World, folder: Path, inputs: Inputs) -> Figures:
    """All rows about one full cluster."""
    size = f"{inputs.nodes:,} nodes, {inputs.pods:,} pods"
    began = time.perf_counter()
    with world(folder, inputs.nodes) as server:
        server.make_namespace()
        wait_until(lambda: are_ready(server, inputs.nodes), "all nodes to be ready")
        registered = time.perf_counter() - began
        began = time.perf_counter()
        uvloop.run(_create(server, inputs))
        created = time.perf_counter() - began
        wait_until(lambda: are_running(server, inputs.pods), "all pods to run")
        running = time.perf_counter() - began
        settle(inputs.idle_seconds)
        at_rest = share_of_a_core(server, inputs.idle_seconds)
        memory = server.memory()
        whole = [list_seconds(server, inputs.pods) for _ in range(inputs.lists)]
        of_a_node = statistics.median(_list_of_a_node(server) for _ in range(20 * inputs.lists))
        watched = _watch(server, inputs)
    return {
        Quantity(f"{inputs.nodes:,} nodes ready, from nothing", "s", beats_peer=True): registered,
        Quantity(f"{inputs.pods:,} pods created on them", "s", beats_peer=True): created,
        Quantity(f"{inputs.pods:,} pods created and running", "s", beats_peer=True): running,
        Quantity(f"{size}: memory (RSS)", "MB", beats_peer=True): memory.rss,
        Quantity(f"{size}: at rest, of a core", "%", beats_peer=True): at_rest,
        Quantity(f"{size}: list of all pods", "s", beats_peer=True): statistics.median(whole),
        Quantity(f"{size}: list of a node's pods", "ms", beats_peer=True): of_a_node * 1e3,
        **watched,
    }


async def _create(server: Server, inputs: Inputs) -> None:
    """The pods, spread evenly over the nodes, bound as if a scheduler had been there."""
    numbers = iter(range(inputs.pods))

    async def send_next(connection: Connection) -> None:
        for number in numbers:
            pod = minimal_pod(node=f"n-{number % inputs.nodes}", name=f"p-{number}")
            await connection.ask(request("POST", PODS_PATH, encoded(pod)))

    async with (
        connections(server.access, inputs.connections) as opened,
        asyncio.TaskGroup() as group,
    ):
        for connection in opened:
            group.create_task(send_next(connection))


def _list_of_a_node(server: Server) -> float:
    began = time.perf_counter()
    _, found = server.access.ask("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn-0")
    if not found["items"]:
        raise RuntimeError("the node n-0 has no pods")
    return time.perf_counter() - began


def _watch(server: Server, inputs: Inputs) -> Figures:
    audience = Audience(
        f"{inputs.pods:,} pods, {inputs.watches} watches",
        [encoded(minimal_pod(name=f"watched-{number}")) for number in range(_WATCHED)],
        [""] * inputs.watches,
        inputs.watches,
    )
    pace = WatchInputs(
        connections=inputs.connections,
        events_per_second=inputs.events_per_second,
        watch_seconds=inputs.watch_seconds,
    )
    return deliver(server, audience, pace)
