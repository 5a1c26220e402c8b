"""What a benchmark says: rows of figures with their aims, as a table and as JSON."""

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from kilonova import __version__

Better = Literal["less", "more"]

_MARKS = {True: " [green]✓[/]", False: " [red]missed[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is measured. `aim` is the worst figure that is good enough; `beats_peer` asks
    for a figure no worse than the peer's."""

    title: str
    unit: str
    better: Better = "less"
    aim: float | None = None
    beats_peer: bool = False

    def aim_text(self) -> str:
        """The aim in words: `≤ 1 s`, `≥ theirs`."""
        sign = "≤" if self.better == "less" else "≥"
        parts = [f"{sign} theirs"] if self.beats_peer else []
        if self.aim is not None:
            parts.append(f"{sign} {self.aim:,g} {self.unit}".rstrip())
        return ", ".join(parts)

    def is_reached(self, ours: float, peer: float | None) -> bool | None:
        """Whether our figure is good enough; None where nothing is aimed at."""
        bounds = [] if self.aim is None else [self.aim]
        if self.beats_peer and peer is not None:
            bounds.append(peer)
        if not bounds:
            return None
        if self.better == "less":
            return all(ours <= bound for bound in bounds)
        return all(ours >= bound for bound in bounds)


Figures: TypeAlias = dict[Quantity, float]
"""What was measured of one server or program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    quantity: Quantity
    ours: float
    peer: float | None = None

    @property
    def times_better(self) -> float | None:
        """How many times better than the peer's ours is; below 1 it is worse."""
        if not self.peer or not self.ours or math.isinf(self.peer) or math.isinf(self.ours):
            return None
        if self.quantity.better == "less":
            return self.peer / self.ours
        return self.ours / self.peer

    @property
    def is_reached(self) -> bool | None:
        return self.quantity.is_reached(self.ours, self.peer)


@dataclass(frozen=True, slots=True)
class Report:
    """A benchmark's outcome: with what inputs, beside whom, and the rows."""

    benchmark: str
    peer: str
    inputs: Mapping[str, int | float | bool]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    def print(self, console: Console) -> None:
        """The table, then the notes; in Markdown where nobody is looking."""
        frame = box.HEAVY_HEAD if console.is_terminal else box.MARKDOWN
        table = Table(title=f"{self.benchmark} ({machine()})\n", title_justify="left", box=frame)
        table.add_column("")
        for heading in ("ours", self.peer, "times better"):
            table.add_column(heading, justify="right")
        table.add_column("aim")
        for row in self.rows:
            unit = row.quantity.unit
            times = row.times_better
            table.add_row(
                row.quantity.title,
                shown(row.ours, unit),
                "" if row.peer is None else shown(row.peer, unit),
                "" if times is None else f"{times:,.2f}",
                row.quantity.aim_text() + _MARKS[row.is_reached],
            )
        console.print(table)
        for note in self.notes:
            console.print(f"\n{note}")

    def write(self, path: Path) -> None:
        """All of it as JSON."""
        document = {
            "benchmark": self.benchmark,
            "version": __version__,
            "made": self.made.isoformat(timespec="seconds"),
            "machine": machine(),
            "inputs": dict(self.inputs),
            "peer": self.peer,
            "rows": [
                {
                    "title": row.quantity.title,
                    "unit": row.quantity.unit,
                    "better": row.quantity.better,
                    "ours": row.ours,
                    "peer": row.peer,
                    "times_better": row.times_better,
                    "aim": row.quantity.aim_text() or None,
                    "reached": row.is_reached,
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def shown(value: float, unit: str) -> str:
    """A figure with about three digits that mean something."""
    if math.isinf(value):
        return "never"
    digits = 0 if value >= 100 or not unit else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def machine() -> str:
    """The facts about this machine that figures depend on."""
    memory = psutil.virtual_memory().total / 2**30
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {python}"
