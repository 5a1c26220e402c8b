"""Rows about the time of placement decisions."""

import gc
import time
from collections.abc import Callable, Iterable

from bench.report import Quantity, Row
from bench.scheduler.clusters import (
    BLOCK,
    GPUS,
    RACK,
    build_cluster,
    build_gang,
    build_planner,
    build_single_pods,
)
from bench.scheduler.inputs import Inputs
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.gangs import Gang, PackConstraint
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.queues import QueueSpec

_KAI_RESULTS = {"singles": 3_000 / 5.8, "gang": 8_600.0, "reclaim": 330.0}
"""KAI 0.17 in memory on two cores: 3,000 one-GPU jobs on 1,000 nodes; a gang of 1,000 on 5,000
nodes; reclaim of 4,000 by 4,000 on 500 nodes. Measured in a separate run.
"""


def measure(inputs: Inputs) -> list[Row]:
    """All rows."""
    return [
        _measure_singles(inputs),
        *_measure_gangs(inputs),
        _measure_rejection(inputs),
        _measure_reclaim(inputs),
    ]


def _measure_singles(inputs: Inputs) -> Row:
    gangs = build_single_pods(min(inputs.singles, inputs.nodes * GPUS))
    seconds = _best_time(
        inputs.runs,
        lambda: build_planner(build_cluster(inputs.nodes)),
        lambda p: _place_gangs(p, gangs),
    )
    title = f"single pods scheduled, {inputs.nodes:,} nodes"
    quantity = Quantity(title, "pods/s", "more", 5_000)
    return Row(quantity, len(gangs) / seconds, _KAI_RESULTS["singles"])


def _measure_gangs(inputs: Inputs) -> Iterable[Row]:
    for nodes, target in ((inputs.nodes, 10.0), (inputs.many_nodes, 50.0)):
        for pack, suffix in (
            (PackConstraint(), ""),
            (PackConstraint(BLOCK, RACK), ", in one block, few racks"),
        ):
            gang = build_gang(inputs.gang, pack=pack)
            seconds = _best_time(
                inputs.runs,
                lambda nodes=nodes: build_planner(build_cluster(nodes)),
                lambda planner, gang=gang: _place_gangs(planner, [gang]),
            )
            title = f"a gang of {inputs.gang:,} pods, {nodes:,} nodes{suffix}"
            peer = _KAI_RESULTS["gang"] if nodes == inputs.nodes and not pack else None
            yield Row(Quantity(title, "ms", "less", target), seconds * 1e3, peer)


def _measure_rejection(inputs: Inputs) -> Row:
    gang = build_gang(257, GPUS, PackConstraint(required=BLOCK))
    seconds = _best_time(
        inputs.runs,
        lambda: build_planner(build_cluster(inputs.nodes)),
        lambda planner: _reject_gangs(planner, gang),
    )
    title = f"rejection of a gang without feasible nodes, {inputs.nodes:,} nodes"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _measure_reclaim(inputs: Inputs) -> Row:
    count = inputs.reclaim_nodes * GPUS
    lenders = QueueSpec("theirs", deserved={GPU: 0})
    owners = QueueSpec("ours", deserved={GPU: count * 1000})
    gangs = build_single_pods(count, "ours")

    def full() -> Planner:
        planner = build_planner(build_cluster(inputs.reclaim_nodes, lenders, owners))
        _place_gangs(planner, build_single_pods(count, "theirs"))
        return planner

    seconds = _best_time(
        inputs.runs, full, lambda planner: _place_gangs(planner, gangs, now=3600.0)
    )
    title = f"{count:,} pods reclaim from {count:,} pods, {inputs.reclaim_nodes:,} nodes"
    return Row(Quantity(title, "s", "less", 2), seconds, _KAI_RESULTS["reclaim"])


def _place_gangs(planner: Planner, gangs: list[Gang], now: float = 0.0) -> None:
    plan = planner.schedule(gangs, now)
    assert len(plan.placements) == len(gangs), f"{len(plan.unschedulable)} gangs are unschedulable"


def _reject_gangs(planner: Planner, gang: Gang) -> None:
    assert planner.schedule([gang], 0.0).unschedulable


def _best_time(runs: int, prepare: Callable[[], Planner], act: Callable[[Planner], None]) -> float:
    """CPU seconds of the fastest run, each on its own planner: one thread decides and waits for
    nothing, so this is the wall time on an idle machine.
    """
    best = float("inf")
    for _ in range(runs):
        planner = prepare()
        gc.collect()
        start = time.process_time()
        act(planner)
        best = min(best, time.process_time() - start)
    return best
