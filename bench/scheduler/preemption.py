"""Rows about gangs that need preemption on a full cluster, and about plans there."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from bench.report import Quantity, Row
from bench.scheduler.clusters import (
    GPUS,
    build_cluster,
    build_gang,
    build_planner,
    build_shape,
    build_single_pods,
)
from bench.scheduler.inputs import Inputs
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import Plan
from kilonova.scheduler.core.model.gangs import Gang, Member, single_pod_gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.queues import QueueSpec

_PLAN_TIME = 3600.0
_REJECTED = 40


def measure(inputs: Inputs) -> list[Row]:
    """All rows: clusters are built once, and each figure is the best of several runs."""
    few, many = inputs.nodes, inputs.many_nodes
    planner = build_planner(build_cluster(many))
    used = build_single_pods(many * GPUS)
    assert not planner.schedule(used[:-1], 0.0).unschedulable
    plan = _time_plan(planner, inputs)
    assert not planner.schedule(used[-1:], 0.0).unschedulable
    at_many = list(_measure_rejections(planner, many, inputs))
    planner = build_planner(build_cluster(few))
    assert not planner.schedule(build_single_pods(few * GPUS), 0.0).unschedulable
    rejections = [
        *_measure_rejections(planner, few, inputs),
        *at_many,
        _measure_cycle(planner, inputs),
    ]
    return [
        *rejections,
        _measure_protected_victims(inputs),
        _measure_reclaim(inputs),
        _measure_shapes(inputs),
        plan,
    ]


def _measure_rejections(planner: Planner, nodes: int, inputs: Inputs) -> Iterable[Row]:
    for pods, what in ((1, "a pod"), (2, "a gang of 2")):
        gang = replace(build_gang(pods, name="late"), created=_PLAN_TIME)
        seconds = _best_time(inputs.runs, partial(_reject_gangs, planner, [gang]))
        title = f"rejection of {what}, no victims, {nodes:,} full nodes"
        yield Row(Quantity(title, "ms", "less", 50), seconds * 1e3)
    seconds = _best_time(inputs.runs, partial(_reject_gangs, planner, [build_gang(1, name="late")]))
    title = f"rejection of a pod with a backfill reservation, {nodes:,} full nodes"
    yield Row(Quantity(title, "ms", "less", 100), seconds * 1e3)


def _measure_cycle(planner: Planner, inputs: Inputs) -> Row:
    made = (build_gang(2 + index, name=f"late-{index}") for index in range(_REJECTED))
    gangs = [replace(gang, created=_PLAN_TIME) for gang in made]
    seconds = _best_time(inputs.runs, partial(_reject_gangs, planner, gangs))
    title = f"a cycle of {_REJECTED} rejected gangs of different sizes, {inputs.nodes:,} full nodes"
    return Row(Quantity(title, "s", "less", 0.3), seconds)


def _measure_protected_victims(inputs: Inputs) -> Row:
    count = inputs.nodes * GPUS
    theirs = QueueSpec("theirs", reclaim_min_runtime=2 * _PLAN_TIME)
    ours = QueueSpec("ours", deserved={GPU: count * 1000})
    planner = build_planner(build_cluster(inputs.nodes, theirs, ours))
    assert not planner.schedule(build_single_pods(count, "theirs"), 0.0).unschedulable
    gangs = [
        replace(gang, created=_PLAN_TIME) for gang in build_single_pods(1, "ours", name="late")
    ]
    seconds = _best_time(inputs.runs, partial(_reject_gangs, planner, gangs))
    title = f"rejection of a pod, all victims protected, {inputs.nodes:,} full nodes"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _measure_reclaim(inputs: Inputs) -> Row:
    count = inputs.nodes * GPUS
    queues = QueueSpec("theirs"), QueueSpec("ours", deserved={GPU: count * 1000})
    planner = build_planner(build_cluster(inputs.nodes, *queues))
    assert not planner.schedule(build_single_pods(count, "theirs"), 0.0).unschedulable
    seconds = _best_time(inputs.runs, partial(_place_gangs, planner, build_single_pods(1, "ours")))
    title = f"reclaim for a pod, {inputs.nodes:,} full nodes"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _measure_shapes(inputs: Inputs) -> Row:
    planner = build_planner(build_cluster(inputs.nodes))
    pods = [_build_distinct_gang(index, inputs.shapes) for index in range(2 * inputs.shapes)]
    seconds = _best_time(inputs.runs, partial(_place_gangs, planner, pods))
    title = f"a pod, {inputs.shapes:,} shapes alternating, {inputs.nodes:,} nodes"
    return Row(Quantity(title, "ms", "less", 0.5), seconds * 1e3 / len(pods))


def _time_plan(planner: Planner, inputs: Inputs) -> Row:
    seconds = _best_time(
        inputs.runs, partial(_place_gangs, planner, build_single_pods(1, name="late"))
    )
    title = f"a plan for a pod, {inputs.many_nodes:,} nodes, one GPU free"
    return Row(Quantity(title, "ms", "less", 10), seconds * 1e3)


def _build_distinct_gang(index: int, shapes: int) -> Gang:
    return single_pod_gang(Member(f"default/pod-{index}", build_shape(1, 1_000 + index % shapes)))


def _reject_gangs(planner: Planner, gangs: list[Gang]) -> None:
    assert len(planner.plan(gangs, _PLAN_TIME).unschedulable) == len(gangs)


def _place_gangs(planner: Planner, gangs: list[Gang]) -> None:
    plan: Plan = planner.plan(gangs, _PLAN_TIME)
    assert len(plan.placements) == len(gangs), f"{len(plan.unschedulable)} gangs are unschedulable"


def _best_time(runs: int, act: Callable[[], None]) -> float:
    """CPU seconds of the fastest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        act()
        best = min(best, time.process_time() - start)
    return best
