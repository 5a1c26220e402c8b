"""Memory of a full cluster: a separate process fills one and reports its size.

Run as `python -m bench.scheduler.memory NODES PODS`.
"""

import subprocess
import sys

import psutil

from bench.report import Quantity, Row
from bench.scheduler.clusters import build_cluster, build_planner
from bench.scheduler.inputs import Inputs
from kilonova.scheduler.core.model.gangs import Member, single_pod_gang
from kilonova.scheduler.core.model.requests import Shape


def measure(inputs: Inputs) -> list[Row]:
    """One row."""
    command = [sys.executable, "-m", "bench.scheduler.memory"]
    numbers = [str(inputs.full_nodes), str(inputs.full_pods)]
    output = subprocess.run([*command, *numbers], check=True, capture_output=True, text=True).stdout
    title = f"memory, {inputs.full_nodes:,} nodes, {inputs.full_pods:,} pods"
    return [Row(Quantity(title, "MB", "less", 500), float(output))]


def measure_memory(nodes: int, pods: int) -> float:
    """Megabytes of a process that has placed so many pods."""
    planner = build_planner(build_cluster(nodes))
    shapes = [
        Shape((("cpu", 100 * size), ("memory", 1 << 30), ("pods", 1))) for size in range(1, 65)
    ]
    gangs = [
        single_pod_gang(
            Member(f"default/pod-{index}", shapes[index % 64], {"app": f"app-{index % 100}"})
        )
        for index in range(pods)
    ]
    planner.schedule(gangs, 0.0)
    return psutil.Process().memory_info().rss / 1e6


if __name__ == "__main__":
    print(measure_memory(int(sys.argv[1]), int(sys.argv[2])))
