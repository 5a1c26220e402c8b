"""Rows about time."""

import gc
import time
from collections.abc import Callable, Iterable

from bench.report import Quantity, Row
from bench.scheduler.inputs import Inputs
from bench.scheduler.worlds import (
    BLOCK,
    GPUS,
    RACK,
    cluster_of,
    gang_of,
    planner_of,
    singles,
)
from kilonova.scheduler.core.gangs import Gang, Pack
from kilonova.scheduler.core.plan import Planner
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU

_KAI = {"singles": 3_000 / 5.8, "gang": 8_600.0, "reclaim": 330.0}
"""KAI 0.17 in memory on two cores: 3,000 one-GPU jobs on 1,000 nodes; a gang of 1,000 on 5,000
nodes; reclaim of 4,000 by 4,000 on 500 nodes. Measured elsewhere, for the specification."""


def measure(inputs: Inputs) -> list[Row]:
    """All of them."""
    return [
        _singles(inputs),
        *_gangs(inputs),
        _refusal(inputs),
        _reclaim(inputs),
    ]


def _singles(inputs: Inputs) -> Row:
    wanted = singles(min(inputs.singles, inputs.nodes * GPUS))
    seconds = _best(
        inputs.runs, lambda: planner_of(cluster_of(inputs.nodes)), lambda p: _placed(p, wanted)
    )
    title = f"single pods decided, {inputs.nodes:,} nodes"
    quantity = Quantity(title, "pods/s", "more", 5_000)
    return Row(quantity, len(wanted) / seconds, _KAI["singles"])


def _gangs(inputs: Inputs) -> Iterable[Row]:
    for nodes, aim in ((inputs.nodes, 10.0), (inputs.many_nodes, 50.0)):
        for pack, words in ((Pack(), ""), (Pack(BLOCK, RACK), ", in one block, few racks")):
            gang = gang_of(inputs.gang, pack=pack)
            seconds = _best(
                inputs.runs,
                lambda nodes=nodes: planner_of(cluster_of(nodes)),
                lambda planner, gang=gang: _placed(planner, [gang]),
            )
            title = f"a gang of {inputs.gang:,} pods, {nodes:,} nodes{words}"
            peer = _KAI["gang"] if nodes == inputs.nodes and not pack else None
            yield Row(Quantity(title, "ms", "less", aim), seconds * 1e3, peer)


def _refusal(inputs: Inputs) -> Row:
    gang = gang_of(257, GPUS, Pack(required=BLOCK))
    seconds = _best(
        inputs.runs,
        lambda: planner_of(cluster_of(inputs.nodes)),
        lambda planner: _refused(planner, gang),
    )
    title = f"a gang that fits nowhere, {inputs.nodes:,} nodes"
    return Row(Quantity(title, "ms", "less", 50), seconds * 1e3)


def _reclaim(inputs: Inputs) -> Row:
    count = inputs.reclaim_nodes * GPUS
    lenders = QueueSpec("theirs", deserved={GPU: 0})
    owners = QueueSpec("ours", deserved={GPU: count * 1000})
    wanted = singles(count, "ours")

    def full() -> Planner:
        planner = planner_of(cluster_of(inputs.reclaim_nodes, lenders, owners))
        _placed(planner, singles(count, "theirs"))
        return planner

    seconds = _best(inputs.runs, full, lambda planner: _placed(planner, wanted, now=3600.0))
    title = f"{count:,} pods reclaim what {count:,} use, {inputs.reclaim_nodes:,} nodes"
    return Row(Quantity(title, "s", "less", 2), seconds, _KAI["reclaim"])


def _placed(planner: Planner, gangs: list[Gang], now: float = 0.0) -> None:
    plan = planner.decide(gangs, now)
    assert len(plan.placements) == len(gangs), f"{len(plan.refusals)} found no place"


def _refused(planner: Planner, gang: Gang) -> None:
    assert planner.decide([gang], 0.0).refusals


def _best(runs: int, prepare: Callable[[], Planner], act: Callable[[Planner], None]) -> float:
    """Seconds of processor time of the fastest run, each on what was made for it alone: one thread
    decides and waits for nothing, so it is what a clock shows on a machine that is not busy."""
    best = float("inf")
    for _ in range(runs):
        planner = prepare()
        gc.collect()
        begun = time.process_time()
        act(planner)
        best = min(best, time.process_time() - begun)
    return best
