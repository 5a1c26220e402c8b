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
from bench.fleet import allocation, nebula, picture, takeover
from bench.fleet.inputs import QUICK, Inputs
from bench.report import Row

_INFO = BenchmarkInfo("fleet", "", ())


class Family(StrEnum):
    """A family of rows."""

    ALLOCATION = "allocation"
    FIT = "fit"
    TAKEOVER = "takeover"
    NEBULA = "nebula"


_MEASURES: dict[Family, Callable[[Inputs], list[Row]]] = {
    Family.ALLOCATION: allocation.measure,
    Family.FIT: picture.measure,
    Family.TAKEOVER: takeover.measure,
    Family.NEBULA: nebula.measure,
}


def fleet(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    quick: Quick = False,
    nodes: PositiveInt = None,
    agents: PositiveInt = None,
    clusters: PositiveInt = None,
    instances: PositiveInt = None,
    runs: PositiveInt = None,
    takeovers: PositiveInt = None,
    lease_seconds: PositiveInt = None,
) -> None:
    """Instances of models: their allocation, the picture of a large cluster; many clusters, and
    the takeover of the lead of a fleet."""
    given = {
        "nodes": nodes,
        "agents": agents,
        "clusters": clusters,
        "instances": instances,
        "runs": runs,
        "takeovers": takeovers,
        "lease_seconds": lease_seconds,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)

    def measure(progress: Console) -> list[Row]:
        rows: list[Row] = []
        for family in only or list(Family):
            progress.print(f"measuring {family} …")
            rows += _MEASURES[family](inputs)
        return rows

    run_benchmark(_INFO, inputs, False, measure, json)
