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
from bench.gpu import agent, planning, serving, topology
from bench.gpu.inputs import QUICK, Inputs
from bench.report import Row

_INFO = BenchmarkInfo(
    "gpu",
    "beside",
    (
        "Served: sums over four mixes of profiles and three loads (0.7, 1 and 1.3 of the slices), "
        "on H100 with 80 GB; every policy sees the same streams, and what does not fit is lost. "
        "Ours is the scheduler's choice, with the demand that it learns on the way.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    PLANNING = "planning"
    SERVING = "serving"
    TOPOLOGY = "topology"
    AGENT = "agent"


_MEASURES: dict[Family, Callable[[Inputs], list[Row]]] = {
    Family.PLANNING: planning.measure,
    Family.SERVING: serving.measure,
    Family.TOPOLOGY: topology.measure,
    Family.AGENT: agent.measure,
}


def gpu(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    quick: Quick = False,
    decisions: PositiveInt = None,
    repack_gpus: PositiveInt = None,
    fleet: PositiveInt = None,
    requests: PositiveInt = None,
    streams: PositiveInt = None,
) -> None:
    """MIG: placement decisions, repack plans, requests served of random streams; topology
    queries; the node agent at rest."""
    given = {
        "decisions": decisions,
        "repack_gpus": repack_gpus,
        "fleet": fleet,
        "requests": requests,
        "streams": streams,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _MEASURES[family](inputs)
        return rows

    run_benchmark(_INFO, inputs, False, measure, json)
