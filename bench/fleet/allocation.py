"""Row: the decision about an instance of many agents in a large cluster."""

import gc
import time

from bench.fleet.clusters import build_gang, build_snapshot
from bench.fleet.inputs import Inputs
from bench.report import Quantity, Row

MAX_MILLISECONDS = 20.0


def measure(inputs: Inputs) -> list[Row]:
    """CPU time of the fastest run, each on a new cluster, so that caches have to be built too: one
    thread decides, and waits for nothing."""
    snapshot = build_snapshot(inputs.nodes)
    gang = build_gang(snapshot, inputs.agents)
    best = float("inf")
    for _ in range(inputs.runs):
        planner = snapshot.build_planner(snapshot.to_cluster())
        gc.collect()
        start = time.process_time()
        plan = planner.schedule([gang], 0.0)
        best = min(best, time.process_time() - start)
        assert len(plan.placements[0].pods) == inputs.agents + 1
    title = f"allocate an instance of {inputs.agents} agents, {inputs.nodes:,} nodes"
    return [Row(Quantity(title, "ms", "less", MAX_MILLISECONDS), best * 1e3)]
