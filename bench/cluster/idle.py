"""CPU and memory of a cluster without changes, only heartbeats."""

from pathlib import Path

from bench.cluster.clusters import StartCluster
from bench.cluster.inputs import Inputs
from bench.cluster.observation import has_ready_nodes, measure_cpu_percent, settle, wait_until
from bench.report import Measurements, Quantity

_TARGET_PERCENT = 5


def measure(start_cluster: StartCluster, folder: Path, inputs: Inputs) -> Measurements:
    """CPU and memory of a cluster with many nodes and no pods."""
    with start_cluster(folder, inputs.idle_nodes) as server:
        wait_until(lambda: has_ready_nodes(server, inputs.idle_nodes), "all nodes to be ready")
        settle(inputs.idle_seconds)
        used = measure_cpu_percent(server, inputs.idle_seconds)
        memory = server.measure_memory()
    title = f"{inputs.idle_nodes:,} idle nodes"
    return {
        Quantity(f"{title}: CPU, of one core", "%", target=_TARGET_PERCENT, beats_peer=True): used,
        Quantity(f"{title}: memory (RSS)", "MB", beats_peer=True): memory.rss,
    }
