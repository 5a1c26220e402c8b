"""Rows about gangs that find no free place on a full cluster, and about plans there."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from bench.report import Quantity, Row
from bench.scheduler.inputs import Inputs
from bench.scheduler.worlds import GPUS, cluster_of, gang_of, planner_of, shape, singles
from kilonova.scheduler.core.gangs import Gang, Member, single
from kilonova.scheduler.core.plan import Plan, Planner
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU

_LATER = 3600.0
_REJECTED = 40


def measure(inputs: Inputs) -> list[Row]:
    """All of them: clusters are made once, and each figure is the best of some runs."""
    few, many = inputs.nodes, inputs.many_nodes
    planner = planner_of(cluster_of(many))
    used = singles(many * GPUS)
    assert not planner.decide(used[:-1], 0.0).refusals
    plan = _plan(planner, inputs)
    assert not planner.decide(used[-1:], 0.0).refusals
    at_many = list(_rejections(planner, many, inputs))
    planner = planner_of(cluster_of(few))
    assert not planner.decide(singles(few * GPUS), 0.0).refusals
    rejections = [*_rejections(planner, few, inputs), *at_many, _cycle(planner, inputs)]
    return [*rejections, _protected(inputs), _reclaim(inputs), _shapes(inputs), plan]


def _rejections(planner: Planner, nodes: int, inputs: Inputs) -> Iterable[Row]:
    for pods, words in ((1, "a pod"), (2, "a gang of 2")):
        gang = replace(gang_of(pods, name="late"), created=_LATER)
        seconds = _best(inputs.runs, partial(_refused, planner, [gang]))
        title = f"rejection of {words}, nobody to evict, {nodes:,} nodes full"
        yield Row(Quantity(title, "ms", "less", 50), seconds * 1e3)
    seconds = _best(inputs.runs, partial(_refused, planner, [gang_of(1, name="late")]))
    title = f"rejection of a pod for which room is reserved, {nodes:,} nodes full"
    yield Row(Quantity(title, "ms", "less", 100), seconds * 1e3)


def _cycle(planner: Planner, inputs: Inputs) -> Row:
    made = (gang_of(2 + index, name=f"late-{index}") for index in range(_REJECTED))
    gangs = [replace(gang, created=_LATER) for gang in made]
    seconds = _best(inputs.runs, partial(_refused, planner, gangs))
    title = f"a cycle of {_REJECTED} rejected gangs of different sizes, {inputs.nodes:,} nodes full"
    return Row(Quantity(title, "s", "less", 0.3), seconds)


def _protected(inputs: Inputs) -> Row:
    count = inputs.nodes * GPUS
    theirs = QueueSpec("theirs", reclaim_min_runtime=2 * _LATER)
    ours = QueueSpec("ours", deserved={GPU: count * 1000})
    planner = planner_of(cluster_of(inputs.nodes, theirs, ours))
    assert not planner.decide(singles(count, "theirs"), 0.0).refusals
    gangs = [replace(gang, created=_LATER) for gang in singles(1, "ours", name="late")]
    seconds = _best(inputs.runs, partial(_refused, planner, gangs))
    title = f"rejection of a pod, all victims protected, {inputs.nodes:,} nodes full"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _reclaim(inputs: Inputs) -> Row:
    count = inputs.nodes * GPUS
    queues = QueueSpec("theirs"), QueueSpec("ours", deserved={GPU: count * 1000})
    planner = planner_of(cluster_of(inputs.nodes, *queues))
    assert not planner.decide(singles(count, "theirs"), 0.0).refusals
    seconds = _best(inputs.runs, partial(_placed, planner, singles(1, "ours")))
    title = f"reclaim for a pod, {inputs.nodes:,} nodes full"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _shapes(inputs: Inputs) -> Row:
    planner = planner_of(cluster_of(inputs.nodes))
    pods = [_of_own_shape(index, inputs.shapes) for index in range(2 * inputs.shapes)]
    seconds = _best(inputs.runs, partial(_placed, planner, pods))
    title = f"a pod of one of {inputs.shapes:,} shapes in turn, {inputs.nodes:,} nodes"
    return Row(Quantity(title, "ms", "less", 0.5), seconds * 1e3 / len(pods))


def _plan(planner: Planner, inputs: Inputs) -> Row:
    seconds = _best(inputs.runs, partial(_placed, planner, singles(1, name="late")))
    title = f"a plan for a pod, {inputs.many_nodes:,} nodes all but full"
    return Row(Quantity(title, "ms", "less", 10), seconds * 1e3)


def _of_own_shape(index: int, shapes: int) -> Gang:
    return single(Member(f"default/pod-{index}", shape(1, 1_000 + index % shapes)))


def _refused(planner: Planner, gangs: list[Gang]) -> None:
    assert len(planner.plan(gangs, _LATER).refusals) == len(gangs)


def _placed(planner: Planner, gangs: list[Gang]) -> None:
    plan: Plan = planner.plan(gangs, _LATER)
    assert len(plan.placements) == len(gangs), f"{len(plan.refusals)} found no place"


def _best(runs: int, act: Callable[[], None]) -> float:
    """Seconds of processor time of the fastest run."""
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        act()
        best = min(best, time.process_time() - begun)
    return best
