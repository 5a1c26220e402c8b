"""What a full cluster weighs in memory: a process of its own that fills one and says how big it is.

python -m bench.scheduler.weighing NODES PODS
"""

import subprocess
import sys

import psutil

from bench.report import Quantity, Row
from bench.scheduler.inputs import Inputs
from bench.scheduler.worlds import cluster_of, planner_of
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Member, single


def measure(inputs: Inputs) -> list[Row]:
    """One row."""
    command = [sys.executable, "-m", "bench.scheduler.weighing"]
    numbers = [str(inputs.full_nodes), str(inputs.full_pods)]
    said = subprocess.run([*command, *numbers], check=True, capture_output=True, text=True).stdout
    title = f"memory, {inputs.full_nodes:,} nodes, {inputs.full_pods:,} pods"
    return [Row(Quantity(title, "MB", "less", 500), float(said))]


def weigh(nodes: int, pods: int) -> float:
    """Megabytes of a process that has placed so many pods."""
    planner = planner_of(cluster_of(nodes))
    shapes = [
        Shape((("cpu", 100 * size), ("memory", 1 << 30), ("pods", 1))) for size in range(1, 65)
    ]
    gangs = [
        single(Member(f"default/pod-{index}", shapes[index % 64], {"app": f"app-{index % 100}"}))
        for index in range(pods)
    ]
    planner.decide(gangs, 0.0)
    return psutil.Process().memory_info().rss / 1e6


if __name__ == "__main__":
    print(weigh(int(sys.argv[1]), int(sys.argv[2])))
