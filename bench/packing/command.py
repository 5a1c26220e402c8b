"""The command line of this benchmark, and its table."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench.comparison import JsonFile
from bench.packing.published_results import get_published
from bench.packing.runs import PlacementPolicy, SimulationResult, run_all
from bench.packing.simulation import ARRIVALS_PER_MOVE
from bench.packing.traces import default_files, get_mix_name, read_nodes, read_tasks
from bench.report import describe_machine
from kilonova import __version__

_NON_TERMINAL_WIDTH = 160
_RECOVERED_PERCENT_TARGET = 100 / 3
_NOTES = (
    "Percent of all GPUs in use when 100 and 130 percent of them have been requested, mean of the "
    "seeds. FGD, BestFit and Random are simulated on the same arrivals; published are the results "
    "of FGD's authors with other seeds.",
    "FGD knows all tasks in advance; ours learns from arrivals, except in the column with known "
    "demand.",
    "Upper bound: every task may be moved at every arrival, and nodes, CPU, memory and GPU models "
    "are ignored. The remaining idle capacity is what the shares cannot fill.",
)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A mix at one load: percent in use by policy, simulated and published."""

    mix: str
    percent: int
    measured: Mapping[PlacementPolicy, float]
    published: Mapping[str, float]

    @property
    def recovered_percent(self) -> float | None:
        """The percentage of FGD's idle capacity that is in use with migrations."""
        fgd, with_moves = (
            self.measured[PlacementPolicy.FGD],
            self.measured.get(PlacementPolicy.FIT_WITH_MOVES),
        )
        return None if with_moves is None else 100 * (with_moves - fgd) / (100 - fgd)

    @property
    def is_target_met(self) -> bool:
        """Whether placement alone is above FGD, simulated and published."""
        ours = self.measured[PlacementPolicy.OURS]
        return ours > self.measured[PlacementPolicy.FGD] and ours > self.published.get("FGD", 0.0)


def packing(
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[PODS]...", help="Additional files of tasks.")
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="CSV file of the cluster's nodes.")] = None,
    pods: Annotated[
        list[Path] | None, typer.Option(help="CSV file of a mix of tasks; repeatable.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds: 42-51, or 1,2,7.")] = "42-51",
    json: JsonFile = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Also simulate one migration per hundred arrivals.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = os.cpu_count() or 1,
) -> None:
    """GPU utilization with a public trace, compared with FGD, BestFit and Random."""
    progress = Console(stderr=True, soft_wrap=True)
    given = [*(pods or []), *(more or [])]
    numbers = _parse_seeds(seeds)
    policies = [
        each for each in PlacementPolicy if moves or each is not PlacementPolicy.FIT_WITH_MOVES
    ]

    def report_result(result: SimulationResult) -> None:
        figure = f"{result.mean(130):.2f} %"
        progress.print(f"{get_mix_name(result.tasks)}: {result.policy}: {figure}", markup=False)

    try:
        if nodes is None or not given:
            default_nodes, default_pods = default_files()
            nodes, given = nodes or default_nodes, given or default_pods
        read_nodes(nodes)
        for file in given:
            read_tasks(file)
        results = run_all(policies, nodes, given, numbers, jobs, report_result)
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        progress.print(f"benchmark failed: {error}", markup=False)
        raise typer.Exit(1) from error
    rows = build_rows(results)
    console = Console()
    _print_table(
        rows, policies, console if console.is_terminal else Console(width=_NON_TERMINAL_WIDTH)
    )
    if json is not None:
        json.write_bytes(_build_document(rows, results, numbers))


def build_rows(results: Sequence[SimulationResult]) -> list[ResultRow]:
    """Two rows per mix."""
    by_mix: dict[Path, list[SimulationResult]] = {}
    for result in results:
        by_mix.setdefault(result.tasks, []).append(result)
    return [
        ResultRow(
            get_mix_name(tasks),
            percent,
            {result.policy: result.mean(percent) for result in mix_results},
            get_published(get_mix_name(tasks), percent),
        )
        for tasks, mix_results in by_mix.items()
        for percent in (100, 130)
    ]


def _parse_seeds(text: str) -> list[int]:
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        numbers = []
    if not numbers:
        raise typer.BadParameter(f"{text!r} is not a list of seeds: use 42-51 or 1,2,7")
    return numbers


def _print_table(
    rows: Sequence[ResultRow], policies: Sequence[PlacementPolicy], console: Console
) -> None:
    frame = box.HEAVY_HEAD if console.is_terminal else box.MARKDOWN
    table = Table(title=f"packing ({describe_machine()})\n", title_justify="left", box=frame)
    table.add_column("mix")
    peers = sorted({peer for row in rows for peer in row.published}, key=_sort_key)
    for heading in ("x", *policies, *(f"{peer}, published" for peer in peers)):
        table.add_column(heading, justify="right")
    table.add_column("target: above FGD")
    if PlacementPolicy.FIT_WITH_MOVES in policies:
        table.add_column(
            f"target: {_RECOVERED_PERCENT_TARGET:.0f} % of FGD's idle", justify="right"
        )
    for row in rows:
        cells = [f"{row.measured[each]:.2f}" for each in policies]
        cells += [f"{row.published[peer]:.2f}" if peer in row.published else "" for peer in peers]
        cells.append(_format_target(row.is_target_met))
        if row.recovered_percent is not None:
            mark = (
                f" {_format_target(row.recovered_percent >= _RECOVERED_PERCENT_TARGET)}"
                if row.percent == 130
                else ""
            )
            cells.append(f"{row.recovered_percent:.1f} %{mark}")
        table.add_row(row.mix, str(row.percent), *cells)
    console.print(table)
    for note in _NOTES:
        console.print(f"\n{note}")
    if PlacementPolicy.FIT_WITH_MOVES in policies:
        console.print(f"\nOne task is migrated for every {ARRIVALS_PER_MOVE} arrivals.")


def _format_target(is_reached: bool) -> str:
    return "[green]✓[/]" if is_reached else "[red]missed[/]"


def _sort_key(peer: str) -> int:
    """The best first."""
    return -list(get_published("default", 130)).index(peer)


def _build_document(
    rows: Sequence[ResultRow], results: Sequence[SimulationResult], seeds: Sequence[int]
) -> bytes:
    document = {
        "benchmark": "packing",
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "seeds": seeds,
        "rows": [
            {
                "mix": row.mix,
                "x": row.percent,
                "played": {str(each): figure for each, figure in row.measured.items()},
                "published": row.published,
                "above_fgd": row.is_target_met,
                "won_back": row.recovered_percent,
            }
            for row in rows
        ],
        "matches": [
            {
                "mix": get_mix_name(result.tasks),
                "policy": str(result.policy),
                "seed": seed,
                "at_100": outcome.at_100,
                "at_130": outcome.at_130,
                "moves": outcome.moves,
            }
            for result in results
            for seed, outcome in zip(seeds, result.outcomes, strict=True)
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
