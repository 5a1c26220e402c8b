"""What a cluster uses while nothing happens but heartbeats."""

from pathlib import Path

from bench.cluster.inputs import Inputs
from bench.cluster.looking import are_ready, settle, share_of_a_core, wait_until
from bench.cluster.worlds import World
from bench.report import Figures, Quantity

_AIM_PERCENT = 5


def measure(world: World, folder: Path, inputs: Inputs) -> Figures:
    """Processor time and memory of a cluster with many nodes and no pods."""
    with world(folder, inputs.idle_nodes) as server:
        wait_until(lambda: are_ready(server, inputs.idle_nodes), "all nodes to be ready")
        settle(inputs.idle_seconds)
        used = share_of_a_core(server, inputs.idle_seconds)
        memory = server.memory()
    title = f"{inputs.idle_nodes:,} nodes at rest"
    return {
        Quantity(f"{title}, of a core", "%", aim=_AIM_PERCENT, beats_peer=True): used,
        Quantity(f"{title}: memory (RSS)", "MB", beats_peer=True): memory.rss,
    }
