"""Prints lists as a table, JSON, YAML or names: all views, or one line per change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import typer

from kilonova.api.times import human_duration
from kilonova.component.command.output.colours import colour_of_state, paint
from kilonova.component.command.output.format_names import ListFormat
from kilonova.component.command.output.formats import encode_as, encode_json_line
from kilonova.component.command.output.terminal_text import to_one_line

V = TypeVar("V")

_GAP = "   "
_MAX_LENGTH = 60


@dataclass(frozen=True, slots=True)
class ListPrinter(Generic[V]):
    """Prints views in one output format."""

    header: tuple[str, ...] | None
    cells: Callable[[V], tuple[str, ...]]
    state_columns: frozenset[int]
    """Indexes of columns that are coloured by state."""
    reference: Callable[[V], str]
    """`node/h100-0`."""
    key: Callable[[V], tuple[str, str]]
    """Identity of the object, stable across changes."""
    output_format: ListFormat
    coloured: bool

    def print(self, views: Sequence[V], empty_message: str) -> None:
        """Print all views; if a table would be empty, `empty_message` on standard error."""
        match self.output_format:
            case "json":
                typer.echo(encode_as(views, "json"))
            case "yaml":
                typer.echo(encode_as(views, "yaml"))
            case "name":
                for view in views:
                    typer.echo(self.reference(view))
            case "table" | "wide":
                if views:
                    typer.echo("\n".join(self.format_lines(views)), color=self.coloured)
                else:
                    typer.echo(empty_message, err=True)

    def format_lines(self, views: Sequence[V]) -> list[str]:
        """The lines of a table, with its header unless it is disabled."""
        rows = [self.cells(view) for view in views]
        return self._format_rows(rows, self._column_widths(rows))

    def change_printer(self) -> Callable[[Sequence[V]], None]:
        """A function that prints changed views: a line or document each, with constant widths."""
        match self.output_format:
            case "json":
                return _print_each(encode_json_line)
            case "yaml":
                return _print_each(lambda view: f"---\n{encode_as(view, 'yaml')}")
            case "name":
                return _print_each(self.reference)
            case "table" | "wide":
                return self._table_change_printer()

    def _table_change_printer(self) -> Callable[[Sequence[V]], None]:
        widths: list[int] = []

        def print_changes(views: Sequence[V]) -> None:
            rows = [self.cells(view) for view in views]
            lines = self._format_rows(rows, widths or self._column_widths(rows))
            if not widths:
                widths.extend(self._column_widths(rows))
            elif self.header is not None:
                del lines[0]
            for line in lines:
                typer.echo(line, color=self.coloured)

        return print_changes

    def _column_widths(self, rows: Sequence[tuple[str, ...]]) -> list[int]:
        measured = [*rows, self.header] if self.header else rows
        return [max(map(len, column)) for column in zip(*measured, strict=True)]

    def _format_rows(self, rows: Sequence[tuple[str, ...]], widths: Sequence[int]) -> list[str]:
        header = (
            [] if self.header is None else [self._format_row(self.header, widths, coloured=False)]
        )
        return header + [self._format_row(row, widths, coloured=self.coloured) for row in rows]

    def _format_row(self, cells: tuple[str, ...], widths: Sequence[int], *, coloured: bool) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        padded[-1] = cells[-1]
        if coloured:
            for index in self.state_columns:
                state = cells[index]
                padded[index] = paint(state, colour_of_state(state)) + padded[index][len(state) :]
        return _GAP.join(padded).rstrip()


def _print_each(format_view: Callable[[V], str]) -> Callable[[Sequence[V]], None]:
    def print_views(views: Sequence[V]) -> None:
        for view in views:
            typer.echo(format_view(view))

    return print_views


def format_number(number: float) -> str:
    """`8`, `3.5`."""
    return f"{round(number, 2):g}"


def format_gibibytes(number: int) -> str:
    """`512Gi`."""
    return f"{number / (1 << 30):.0f}Gi"


def shorten(text: str) -> str:
    """A text on one line, shortened to a maximum length; `-` if it is empty."""
    text = to_one_line(text) or "-"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1].rstrip()}…"


def format_age(created: float | None, now: float) -> str:
    """The age as in kubectl: `23m`."""
    return "-" if created is None else human_duration(now - created)
