"""Every policy on every mix with every seed, in several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from bench.packing.ceiling import ceiling
from bench.packing.planned import play_planned
from bench.packing.play import Outcome, play
from bench.packing.policies import BestFit, Fit, FragmentationGradientDescent, RandomChoice
from bench.packing.traces import Nodes, arrivals, read_nodes, read_tasks


class Contestant(StrEnum):
    """Who places tasks."""

    OURS = "ours"
    KNOWING = "ours, mix known"
    MOVING = "ours, with moves"
    FGD = "FGD"
    BESTFIT = "BestFit"
    RANDOM = "Random"
    CEILING = "repacked at will"


@dataclass(frozen=True, slots=True)
class Match:
    """One contestant on one order of tasks."""

    contestant: Contestant
    nodes: Path
    tasks: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """A contestant on one mix, with all seeds in order."""

    contestant: Contestant
    tasks: Path
    outcomes: tuple[Outcome, ...]

    def mean(self, percent: int) -> float:
        """Percent of GPUs in use when 100 or 130 percent were asked for."""
        return fmean(one.at_100 if percent == 100 else one.at_130 for one in self.outcomes)


def contest(
    contestants: Sequence[Contestant],
    nodes: Path,
    mixes: Sequence[Path],
    seeds: Sequence[int],
    jobs: int,
    done: Callable[[Result], None],
) -> list[Result]:
    """The results by mix; `done` is told of each when it is there."""
    matches = [
        Match(contestant, nodes, tasks, seed)
        for tasks in mixes
        for contestant in contestants
        for seed in seeds
    ]
    results: list[Result] = []
    with ProcessPoolExecutor(jobs) as processes:
        outcomes: Iterator[Outcome] = processes.map(outcome, matches)
        for tasks in mixes:
            for contestant in contestants:
                result = Result(contestant, tasks, tuple(next(outcomes) for _ in seeds))
                done(result)
                results.append(result)
    return results


def outcome(match: Match) -> Outcome:
    """Plays one match."""
    nodes = _nodes(match.nodes)
    tasks = read_tasks(match.tasks)
    order = arrivals(tasks, nodes.capacity, match.seed)
    match match.contestant:
        case Contestant.OURS:
            return play_planned(nodes, order)
        case Contestant.KNOWING:
            return play(nodes, order, Fit(nodes, tasks))
        case Contestant.MOVING:
            policy = Fit(nodes)
            return play(nodes, order, policy, policy)
        case Contestant.FGD:
            return play(nodes, order, FragmentationGradientDescent(nodes, tasks))
        case Contestant.BESTFIT:
            return play(nodes, order, BestFit(nodes))
        case Contestant.RANDOM:
            return play(nodes, order, RandomChoice(match.seed))
        case Contestant.CEILING:
            return ceiling(nodes.capacity, order)


@lru_cache(maxsize=1)
def _nodes(file: Path) -> Nodes:
    return read_nodes(file)
