"""A cluster full of pods: time until they run, memory, and request latency."""

import asyncio
import statistics
import time
from pathlib import Path

import uvloop

from bench.cluster.clusters import StartCluster
from bench.cluster.inputs import Inputs
from bench.cluster.observation import (
    PODS_PATH,
    has_ready_nodes,
    has_running_pods,
    measure_cpu_percent,
    settle,
    wait_until,
)
from bench.home.inputs import Inputs as WatchInputs
from bench.home.lists import time_list
from bench.home.pods import build_minimal_pod, encode_pod
from bench.home.raw_http import Connection, encode_request, open_connections
from bench.home.servers import Server
from bench.home.watches import WatchSetup, measure_delivery
from bench.report import Measurements, Quantity

_WATCHED_PODS = 100


def measure(start_cluster: StartCluster, folder: Path, inputs: Inputs) -> Measurements:
    """All rows about a full cluster."""
    size = f"{inputs.nodes:,} nodes, {inputs.pods:,} pods"
    start = time.perf_counter()
    with start_cluster(folder, inputs.nodes) as server:
        server.create_namespace()
        wait_until(lambda: has_ready_nodes(server, inputs.nodes), "all nodes to be ready")
        registered = time.perf_counter() - start
        start = time.perf_counter()
        uvloop.run(_create_pods(server, inputs))
        created = time.perf_counter() - start
        wait_until(lambda: has_running_pods(server, inputs.pods), "all pods to run")
        running = time.perf_counter() - start
        settle(inputs.idle_seconds)
        idle_cpu = measure_cpu_percent(server, inputs.idle_seconds)
        memory = server.measure_memory()
        full_lists = [time_list(server, inputs.pods) for _ in range(inputs.lists)]
        node_list = statistics.median(_time_node_list(server) for _ in range(20 * inputs.lists))
        watched = _measure_watches(server, inputs)
    return {
        Quantity(f"{inputs.nodes:,} nodes ready, cold start", "s", beats_peer=True): registered,
        Quantity(f"{inputs.pods:,} pods created", "s", beats_peer=True): created,
        Quantity(f"{inputs.pods:,} pods created and running", "s", beats_peer=True): running,
        Quantity(f"{size}: memory (RSS)", "MB", beats_peer=True): memory.rss,
        Quantity(f"{size}: idle CPU, of one core", "%", beats_peer=True): idle_cpu,
        Quantity(f"{size}: list of all pods", "s", beats_peer=True): statistics.median(full_lists),
        Quantity(f"{size}: list of a node's pods", "ms", beats_peer=True): node_list * 1e3,
        **watched,
    }


async def _create_pods(server: Server, inputs: Inputs) -> None:
    """Create the pods, spread evenly over the nodes, already bound."""
    numbers = iter(range(inputs.pods))

    async def send_next(connection: Connection) -> None:
        for number in numbers:
            pod = build_minimal_pod(node=f"n-{number % inputs.nodes}", name=f"p-{number}")
            await connection.send(encode_request("POST", PODS_PATH, encode_pod(pod)))

    async with (
        open_connections(server.access, inputs.connections) as opened,
        asyncio.TaskGroup() as group,
    ):
        for connection in opened:
            group.create_task(send_next(connection))


def _time_node_list(server: Server) -> float:
    start = time.perf_counter()
    _, found = server.access.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn-0")
    if not found["items"]:
        raise RuntimeError("the node n-0 has no pods")
    return time.perf_counter() - start


def _measure_watches(server: Server, inputs: Inputs) -> Measurements:
    setup = WatchSetup(
        f"{inputs.pods:,} pods, {inputs.watches} watches",
        [
            encode_pod(build_minimal_pod(name=f"watched-{number}"))
            for number in range(_WATCHED_PODS)
        ],
        [""] * inputs.watches,
        inputs.watches,
    )
    watch_inputs = WatchInputs(
        connections=inputs.connections,
        events_per_second=inputs.events_per_second,
        watch_seconds=inputs.watch_seconds,
    )
    return measure_delivery(server, setup, watch_inputs)
