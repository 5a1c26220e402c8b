"""CPU and memory of an idle `kilonova up`, without and with an open console."""

import asyncio
import time
from pathlib import Path

from bench.cluster.clusters import start_peer_cluster
from bench.cluster.observation import has_ready_nodes, measure_cpu_percent, wait_until
from bench.comparison import compare_with_peer
from bench.product.browser import open_page
from bench.product.inputs import Inputs
from bench.product.instance import FLEETS, running_instance
from bench.report import Measurements, Quantity, Row

_FLEET = "small"
_NODES = FLEETS[_FLEET]

IDLE_CPU = Quantity(f"up, {_NODES} nodes: idle CPU, of one core", "%", target=3)
IDLE_CPU_WITH_CONSOLE = Quantity(
    f"up, {_NODES} nodes, console open: idle CPU, of one core", "%", target=3
)
RSS = Quantity(f"up, {_NODES} nodes: memory (RSS)", "MB", target=250)


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """The peer is a control plane with all controllers and as many simulated nodes."""
    return compare_with_peer(
        lambda folder: _measure_ours(folder, inputs),
        (lambda folder: _measure_peer(folder, inputs)) if with_peer else None,
        data,
    )


def _measure_ours(folder: Path, inputs: Inputs) -> Measurements:
    with running_instance(folder, _FLEET) as product:
        server = product.get_server()
        time.sleep(inputs.settle_seconds)
        alone = measure_cpu_percent(server, inputs.idle_seconds)

        async def open_console() -> float:
            async with open_page(product.get_console_link()):
                await asyncio.sleep(inputs.settle_seconds)
                return await asyncio.to_thread(measure_cpu_percent, server, inputs.idle_seconds)

        viewed = asyncio.run(open_console())
        return {IDLE_CPU: alone, IDLE_CPU_WITH_CONSOLE: viewed, RSS: server.measure_memory().rss}


def _measure_peer(folder: Path, inputs: Inputs) -> Measurements:
    with start_peer_cluster(folder, _NODES) as server:
        wait_until(lambda: has_ready_nodes(server, _NODES), "all nodes to be ready")
        time.sleep(inputs.settle_seconds)
        return {
            IDLE_CPU: measure_cpu_percent(server, inputs.idle_seconds),
            RSS: server.measure_memory().rss,
        }
