"""What lists print: a table, JSON, YAML or names; whole, or a line for each that changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import typer

from kilonova.api.times import human_duration
from kilonova.cli.colours import of_state, painted
from kilonova.cli.lookoptions import Form
from kilonova.cli.screen import one_line
from kilonova.cli.tables import in_form, in_one_line

V = TypeVar("V")

_GAP = "   "
_SHORT = 60


@dataclass(frozen=True, slots=True)
class Printer(Generic[V]):
    """Knows the form and the columns."""

    head: tuple[str, ...] | None
    cells: Callable[[V], tuple[str, ...]]
    states: frozenset[int]
    """Places of columns that are coloured by what is in them."""
    reference: Callable[[V], str]
    """`node/h100-0`."""
    key: Callable[[V], tuple[str, str]]
    """What it stays, however it changes."""
    form: Form
    coloured: bool

    def print(self, views: Sequence[V], nothing: str) -> None:
        """All of them, once; `nothing` goes to standard error where a person would wonder."""
        match self.form:
            case "json":
                typer.echo(in_form(views, "json"))
            case "yaml":
                typer.echo(in_form(views, "yaml"))
            case "name":
                for view in views:
                    typer.echo(self.reference(view))
            case "table" | "wide":
                if views:
                    typer.echo("\n".join(self.table(views)), color=self.coloured)
                else:
                    typer.echo(nothing, err=True)

    def table(self, views: Sequence[V]) -> list[str]:
        """The lines of a table: the titles if they are wanted, and one for each."""
        rows = [self.cells(view) for view in views]
        return self._lines(rows, self._widths(rows))

    def printed_as_it_changes(self) -> Callable[[Sequence[V]], None]:
        """What prints those that changed: a line or a document each, in columns that stay."""
        match self.form:
            case "json":
                return _each(in_one_line)
            case "yaml":
                return _each(lambda view: f"---\n{in_form(view, 'yaml')}")
            case "name":
                return _each(self.reference)
            case "table" | "wide":
                return self._printed_below_each_other()

    def _printed_below_each_other(self) -> Callable[[Sequence[V]], None]:
        widths: list[int] = []

        def printed(views: Sequence[V]) -> None:
            rows = [self.cells(view) for view in views]
            lines = self._lines(rows, widths or self._widths(rows))
            if not widths:
                widths.extend(self._widths(rows))
            elif self.head is not None:
                del lines[0]
            for line in lines:
                typer.echo(line, color=self.coloured)

        return printed

    def _widths(self, rows: Sequence[tuple[str, ...]]) -> list[int]:
        measured = [*rows, self.head] if self.head else rows
        return [max(map(len, column)) for column in zip(*measured, strict=True)]

    def _lines(self, rows: Sequence[tuple[str, ...]], widths: Sequence[int]) -> list[str]:
        titles = [] if self.head is None else [self._line(self.head, widths, coloured=False)]
        return titles + [self._line(row, widths, coloured=self.coloured) for row in rows]

    def _line(self, cells: tuple[str, ...], widths: Sequence[int], *, coloured: bool) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        padded[-1] = cells[-1]
        if coloured:
            for place in self.states:
                word = cells[place]
                padded[place] = painted(word, of_state(word)) + padded[place][len(word) :]
        return _GAP.join(padded).rstrip()


def _each(written: Callable[[V], str]) -> Callable[[Sequence[V]], None]:
    def printed(views: Sequence[V]) -> None:
        for view in views:
            typer.echo(written(view))

    return printed


def amount(number: float) -> str:
    """`8`, `3.5`."""
    return f"{round(number, 2):g}"


def gibibytes(number: int) -> str:
    """`512Gi`."""
    return f"{number / (1 << 30):.0f}Gi"


def short(text: str) -> str:
    """The beginning of a text, on one line; `-` for none."""
    text = one_line(text) or "-"
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1].rstrip()}…"


def age(created: float | None, now: float) -> str:
    """Time since, short."""
    return "-" if created is None else human_duration(now - created)
