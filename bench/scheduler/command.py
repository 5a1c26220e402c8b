"""The command line of this benchmark."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from bench.comparing import JsonFile, Number, Quick, Table, chosen, present
from bench.report import Row
from bench.scheduler import deciding, preemption, weighing
from bench.scheduler.inputs import QUICK, Inputs

_TABLE = Table(
    "scheduler",
    "KAI 0.17",
    (
        "KAI's figures are not of this run: it was measured in memory on two cores, with 1,000 "
        "nodes for single pods.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    TIME = "time"
    PREEMPTION = "preemption"
    MEMORY = "memory"


_MEASURES: dict[Family, Callable[[Inputs], list[Row]]] = {
    Family.TIME: deciding.measure,
    Family.PREEMPTION: preemption.measure,
    Family.MEMORY: weighing.measure,
}


def scheduler(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure this family; may be repeated.")
    ] = None,
    quick: Quick = False,
    nodes: Number = None,
    singles: Number = None,
    gang: Number = None,
    runs: Number = None,
) -> None:
    """Decisions about placement in memory: pods, gangs, rejections, reclaim, plans; memory."""
    given = {"nodes": nodes, "singles": singles, "gang": gang, "runs": runs}
    inputs = chosen(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _MEASURES[family](inputs)
        return rows

    present(_TABLE, inputs, False, measure, json)
