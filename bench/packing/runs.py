"""Runs every policy on every mix with every seed, in several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from bench.packing.policies import (
    BestFitPolicy,
    FitPolicy,
    FragmentationGradientDescent,
    RandomPolicy,
)
from bench.packing.scheduler_run import simulate_scheduler
from bench.packing.simulation import UtilizationResult, simulate
from bench.packing.traces import TraceNodes, order_arrivals, read_nodes, read_tasks
from bench.packing.upper_bound import compute_upper_bound


class PlacementPolicy(StrEnum):
    """The policies that are compared."""

    OURS = "ours"
    FIT_WITH_KNOWN_DEMAND = "ours, known demand"
    FIT_WITH_MOVES = "ours, with migrations"
    FGD = "FGD"
    BESTFIT = "BestFit"
    RANDOM = "Random"
    UPPER_BOUND = "upper bound"


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """One policy on one order of tasks."""

    policy: PlacementPolicy
    nodes: Path
    tasks: Path
    seed: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """A policy on one mix, with all seeds in order."""

    policy: PlacementPolicy
    tasks: Path
    outcomes: tuple[UtilizationResult, ...]

    def mean(self, percent: int) -> float:
        """Percent of GPUs in use when 100 or 130 percent were requested."""
        return fmean(one.at_100 if percent == 100 else one.at_130 for one in self.outcomes)


def run_all(
    policies: Sequence[PlacementPolicy],
    nodes: Path,
    mixes: Sequence[Path],
    seeds: Sequence[int],
    jobs: int,
    on_result: Callable[[SimulationResult], None],
) -> list[SimulationResult]:
    """The results by mix; `on_result` is called with each."""
    runs = [
        SimulationRun(policy, nodes, tasks, seed)
        for tasks in mixes
        for policy in policies
        for seed in seeds
    ]
    results: list[SimulationResult] = []
    with ProcessPoolExecutor(jobs) as processes:
        outcomes: Iterator[UtilizationResult] = processes.map(run_simulation, runs)
        for tasks in mixes:
            for policy in policies:
                result = SimulationResult(policy, tasks, tuple(next(outcomes) for _ in seeds))
                on_result(result)
                results.append(result)
    return results


def run_simulation(run: SimulationRun) -> UtilizationResult:
    """Run one simulation."""
    nodes = _read_nodes(run.nodes)
    tasks = read_tasks(run.tasks)
    order = order_arrivals(tasks, nodes.capacity, run.seed)
    match run.policy:
        case PlacementPolicy.OURS:
            return simulate_scheduler(nodes, order)
        case PlacementPolicy.FIT_WITH_KNOWN_DEMAND:
            return simulate(nodes, order, FitPolicy(nodes, tasks))
        case PlacementPolicy.FIT_WITH_MOVES:
            policy = FitPolicy(nodes)
            return simulate(nodes, order, policy, policy)
        case PlacementPolicy.FGD:
            return simulate(nodes, order, FragmentationGradientDescent(nodes, tasks))
        case PlacementPolicy.BESTFIT:
            return simulate(nodes, order, BestFitPolicy(nodes))
        case PlacementPolicy.RANDOM:
            return simulate(nodes, order, RandomPolicy(run.seed))
        case PlacementPolicy.UPPER_BOUND:
            return compute_upper_bound(nodes.capacity, order)


@lru_cache(maxsize=1)
def _read_nodes(file: Path) -> TraceNodes:
    return read_nodes(file)
