"""The command line of this benchmark."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from bench.comparison import (
    BenchmarkInfo,
    JsonFile,
    PositiveInt,
    Quick,
    apply_options,
    run_benchmark,
)
from bench.report import Row
from bench.scheduler import memory, placement, preemption
from bench.scheduler.inputs import QUICK, Inputs

_INFO = BenchmarkInfo(
    "scheduler",
    "KAI 0.17",
    (
        "KAI's figures are from a separate run, in memory on two cores, with 1,000 nodes for "
        "single pods.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    TIME = "time"
    PREEMPTION = "preemption"
    MEMORY = "memory"


_MEASURES: dict[Family, Callable[[Inputs], list[Row]]] = {
    Family.TIME: placement.measure,
    Family.PREEMPTION: preemption.measure,
    Family.MEMORY: memory.measure,
}


def scheduler(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    quick: Quick = False,
    nodes: PositiveInt = None,
    singles: PositiveInt = None,
    gang: PositiveInt = None,
    runs: PositiveInt = None,
) -> None:
    """Placement decisions in memory: pods, gangs, rejections, reclaim, plans; memory."""
    given = {"nodes": nodes, "singles": singles, "gang": gang, "runs": runs}
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _MEASURES[family](inputs)
        return rows

    run_benchmark(_INFO, inputs, False, measure, json)
