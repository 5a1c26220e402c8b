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

from bench.comparing import JsonFile
from bench.packing.contest import Contestant, Result, contest
from bench.packing.play import ARRIVALS_PER_MOVE
from bench.packing.published import published
from bench.packing.traces import mix_of, read_nodes, read_tasks, usual_files
from bench.report import machine
from kilonova import __version__

_PAPER_WIDTH = 160
_WON_BACK = 100 / 3
_NOTES = (
    "Percent of all GPUs in use when 100 and 130 percent of them had been asked for, means of the "
    "seeds. FGD, BestFit and Random are played here on the same arrivals; published is what FGD's "
    "authors measured with other draws.",
    "FGD is told all tasks beforehand; ours learns from those that arrived, unless the mix is "
    "said to be known.",
    "Repacked at will: every task may be put elsewhere at every arrival, and nodes, CPU, memory "
    "and models do not matter. What is idle then is what the shares do not fill.",
)


@dataclass(frozen=True, slots=True)
class Line:
    """A mix at one moment: percent in use by contestant, played and published."""

    mix: str
    percent: int
    played: Mapping[Contestant, float]
    published: Mapping[str, float]

    @property
    def won_back(self) -> float | None:
        """Of what FGD leaves idle, which percentage is in use with moves."""
        fgd, moving = self.played[Contestant.FGD], self.played.get(Contestant.MOVING)
        return None if moving is None else 100 * (moving - fgd) / (100 - fgd)

    @property
    def is_reached(self) -> bool:
        """Whether placement alone is above FGD, here and as published."""
        ours = self.played[Contestant.OURS]
        return ours > self.played[Contestant.FGD] and ours > self.published.get("FGD", 0.0)


def packing(
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[PODS]...", help="More files of tasks.")
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="Nodes of the cluster, CSV.")] = None,
    pods: Annotated[
        list[Path] | None, typer.Option(help="Tasks of a mix, CSV; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds: 42-51, or 1,2,7.")] = "42-51",
    json: JsonFile = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Also with one move for every hundred arrivals.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
) -> None:
    """How full a public GPU trace makes a cluster, beside FGD, BestFit and Random."""
    progress = Console(stderr=True, soft_wrap=True)
    given = [*(pods or []), *(more or [])]
    numbers = _seeds(seeds)
    contestants = [each for each in Contestant if moves or each is not Contestant.MOVING]

    def tell(result: Result) -> None:
        figure = f"{result.mean(130):.2f} %"
        progress.print(f"{mix_of(result.tasks)}: {result.contestant}: {figure}", markup=False)

    try:
        if nodes is None or not given:
            usual_nodes, usual_pods = usual_files()
            nodes, given = nodes or usual_nodes, given or usual_pods
        read_nodes(nodes)
        for file in given:
            read_tasks(file)
        results = contest(contestants, nodes, given, numbers, jobs, tell)
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        progress.print(f"cannot go on: {error}", markup=False)
        raise typer.Exit(1) from error
    lines = lines_of(results)
    console = Console()
    _print(lines, contestants, console if console.is_terminal else Console(width=_PAPER_WIDTH))
    if json is not None:
        json.write_bytes(_document(lines, results, numbers))


def lines_of(results: Sequence[Result]) -> list[Line]:
    """Two lines a mix."""
    by_mix: dict[Path, list[Result]] = {}
    for result in results:
        by_mix.setdefault(result.tasks, []).append(result)
    return [
        Line(
            mix_of(tasks),
            percent,
            {result.contestant: result.mean(percent) for result in played},
            published(mix_of(tasks), percent),
        )
        for tasks, played in by_mix.items()
        for percent in (100, 130)
    ]


def _seeds(text: str) -> list[int]:
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        numbers = []
    if not numbers:
        raise typer.BadParameter(f"{text!r} are no seeds: write 42-51, or 1,2,7")
    return numbers


def _print(lines: Sequence[Line], contestants: Sequence[Contestant], console: Console) -> None:
    frame = box.HEAVY_HEAD if console.is_terminal else box.MARKDOWN
    table = Table(title=f"packing ({machine()})\n", title_justify="left", box=frame)
    table.add_column("mix")
    peers = sorted({peer for line in lines for peer in line.published}, key=_in_order)
    for heading in ("x", *contestants, *(f"{peer}, published" for peer in peers)):
        table.add_column(heading, justify="right")
    table.add_column("aim: above FGD")
    if Contestant.MOVING in contestants:
        table.add_column(f"aim: {_WON_BACK:.0f} % of FGD's idle", justify="right")
    for line in lines:
        cells = [f"{line.played[each]:.2f}" for each in contestants]
        cells += [f"{line.published[peer]:.2f}" if peer in line.published else "" for peer in peers]
        cells.append(_mark(line.is_reached))
        if line.won_back is not None:
            mark = f" {_mark(line.won_back >= _WON_BACK)}" if line.percent == 130 else ""
            cells.append(f"{line.won_back:.1f} %{mark}")
        table.add_row(line.mix, str(line.percent), *cells)
    console.print(table)
    for note in _NOTES:
        console.print(f"\n{note}")
    if Contestant.MOVING in contestants:
        console.print(f"\nA move is one task put elsewhere: one for {ARRIVALS_PER_MOVE} arrivals.")


def _mark(is_reached: bool) -> str:
    return "[green]✓[/]" if is_reached else "[red]missed[/]"


def _in_order(peer: str) -> int:
    """The best first."""
    return -list(published("default", 130)).index(peer)


def _document(lines: Sequence[Line], results: Sequence[Result], seeds: Sequence[int]) -> bytes:
    document = {
        "benchmark": "packing",
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "seeds": seeds,
        "rows": [
            {
                "mix": line.mix,
                "x": line.percent,
                "played": {str(each): figure for each, figure in line.played.items()},
                "published": line.published,
                "above_fgd": line.is_reached,
                "won_back": line.won_back,
            }
            for line in lines
        ],
        "matches": [
            {
                "mix": mix_of(result.tasks),
                "policy": str(result.contestant),
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
