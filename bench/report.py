"""The result of a benchmark: rows of figures with their targets, as a table and as JSON."""

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

_TARGET_SYMBOLS = {True: " [green]✓[/]", False: " [red]missed[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is measured. `target` is the figure to meet; `beats_peer` requires one no worse than the
    peer's.
    """

    title: str
    unit: str
    better: Better = "less"
    target: float | None = None
    beats_peer: bool = False

    def target_text(self) -> str:
        """The target as text: `≤ 1 s`, `≥ peer`."""
        sign = "≤" if self.better == "less" else "≥"
        parts = [f"{sign} peer"] if self.beats_peer else []
        if self.target is not None:
            parts.append(f"{sign} {self.target:,g} {self.unit}".rstrip())
        return ", ".join(parts)

    def is_target_met(self, ours: float, peer: float | None) -> bool | None:
        """Whether our figure meets the target; None without one."""
        bounds = [] if self.target is None else [self.target]
        if self.beats_peer and peer is not None:
            bounds.append(peer)
        if not bounds:
            return None
        if self.better == "less":
            return all(ours <= bound for bound in bounds)
        return all(ours >= bound for bound in bounds)


Measurements: TypeAlias = dict[Quantity, float]
"""The figures of one server or program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    quantity: Quantity
    ours: float
    peer: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times better our figure is than the peer's; below 1 it is worse."""
        if not self.peer or not self.ours or math.isinf(self.peer) or math.isinf(self.ours):
            return None
        if self.quantity.better == "less":
            return self.peer / self.ours
        return self.ours / self.peer

    @property
    def is_target_met(self) -> bool | None:
        return self.quantity.is_target_met(self.ours, self.peer)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a benchmark: its inputs, its peer, and the rows."""

    benchmark: str
    peer: str
    inputs: Mapping[str, int | float | bool]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    def print(self, console: Console) -> None:
        """Print the table, then the notes; in Markdown if the output is not a terminal."""
        frame = box.HEAVY_HEAD if console.is_terminal else box.MARKDOWN
        table = Table(
            title=f"{self.benchmark} ({describe_machine()})\n", title_justify="left", box=frame
        )
        table.add_column("")
        for heading in ("ours", self.peer, "times better"):
            table.add_column(heading, justify="right")
        table.add_column("target")
        for row in self.rows:
            unit = row.quantity.unit
            times = row.ratio
            table.add_row(
                row.quantity.title,
                format_value(row.ours, unit),
                "" if row.peer is None else format_value(row.peer, unit),
                "" if times is None else f"{times:,.2f}",
                row.quantity.target_text() + _TARGET_SYMBOLS[row.is_target_met],
            )
        console.print(table)
        for note in self.notes:
            console.print(f"\n{note}")

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        document = {
            "benchmark": self.benchmark,
            "version": __version__,
            "made": self.made.isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "inputs": dict(self.inputs),
            "peer": self.peer,
            "rows": [
                {
                    "title": row.quantity.title,
                    "unit": row.quantity.unit,
                    "better": row.quantity.better,
                    "ours": row.ours,
                    "peer": row.peer,
                    "times_better": row.ratio,
                    "target": row.quantity.target_text() or None,
                    "reached": row.is_target_met,
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def format_value(value: float, unit: str) -> str:
    """A figure with about three significant digits."""
    if math.isinf(value):
        return "never"
    digits = 0 if value >= 100 or not unit else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def describe_machine() -> str:
    """The properties of this machine that figures depend on."""
    memory = psutil.virtual_memory().total / 2**30
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {python}"
