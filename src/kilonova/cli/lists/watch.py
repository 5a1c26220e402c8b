"""`--watch`: redraws the table in place on a terminal, else prints a line per change."""

import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import typer

from kilonova.cli.lists.table_sources import LiveTables, TableSource
from kilonova.cli.lists.views import Tables
from kilonova.component.command.output.list_printer import ListPrinter
from kilonova.component.command.output.terminal_text import crop, to_one_line
from kilonova.kube import Client

V = TypeVar("V")

SelectViews: TypeAlias = Callable[[Tables], Awaitable[list[V]]]
"""The views to show, given the current tables."""

DELETED = "Deleted"
"""The state of an object that was deleted."""

_MIN_REDRAW_SECONDS = 0.25
"""Minimum interval between two frames, against flicker."""
_MAX_REDRAW_SECONDS = 5.0
"""Maximum interval between two frames, so that ages stay current."""


async def watch_list(
    client: Client,
    sources: tuple[TableSource, ...],
    select_views: SelectViews[V],
    printer: ListPrinter[V],
    mark_deleted: Callable[[V], V],
) -> None:
    """Print views and their changes until cancelled.

    `mark_deleted` makes the view that is printed once for a deleted object.
    """
    if sys.stdout.isatty() and printer.output_format in ("table", "wide"):
        await _watch_on_terminal(client, sources, select_views, printer)
    else:
        await _watch_to_stream(client, sources, select_views, printer, mark_deleted)


async def _watch_on_terminal(
    client: Client,
    sources: tuple[TableSource, ...],
    select_views: SelectViews[V],
    printer: ListPrinter[V],
) -> None:
    """Redraw the table in place after every change, until cancelled."""
    drawn = 0
    async with follow_tables(client, sources) as live:
        while True:
            size = shutil.get_terminal_size()
            lines = printer.format_lines(await select_views(live.tables()))
            if live.error:
                lines.append(_staleness_message(live.error))
            max_lines = size.lines - 1
            if len(lines) > max_lines:
                lines[max_lines - 1 :] = [f"… and {len(lines) - max_lines + 1} more"]
            cursor_up = f"\x1b[{drawn}A" if drawn else ""
            text = "".join(f"\x1b[K{crop(line, size.columns - 1)}\n" for line in lines)
            typer.echo(f"{cursor_up}{text}\x1b[J", nl=False, color=True)
            drawn = len(lines)
            await live.wait_changed(_MAX_REDRAW_SECONDS)
            await asyncio.sleep(_MIN_REDRAW_SECONDS)


async def _watch_to_stream(
    client: Client,
    sources: tuple[TableSource, ...],
    select_views: SelectViews[V],
    printer: ListPrinter[V],
    mark_deleted: Callable[[V], V],
) -> None:
    """Print all views, then every change, until cancelled."""
    printed: dict[tuple[str, str], V] = {}
    print_changes = printer.change_printer()
    stale = False
    async with follow_tables(client, sources) as live:
        while True:
            if stale != bool(live.error):
                stale = not stale
                typer.echo(f"kilonova: {_staleness_message(live.error)}", err=True)
            current = {printer.key(view): view for view in await select_views(live.tables())}
            deleted = [mark_deleted(view) for key, view in printed.items() if key not in current]
            changed = [view for key, view in current.items() if printed.get(key) != view]
            print_changes(deleted + changed)
            printed = current
            await live.wait_changed(_MAX_REDRAW_SECONDS)
            await asyncio.sleep(_MIN_REDRAW_SECONDS)


def _staleness_message(error: str) -> str:
    return f"Not up to date, retrying: {to_one_line(error)}" if error else "Up to date again"


@asynccontextmanager
async def follow_tables(
    client: Client, sources: tuple[TableSource, ...]
) -> AsyncGenerator[LiveTables]:
    """Synced tables that are kept up to date inside of the context."""
    # Errors are shown with the table; log lines would corrupt the display.
    logging.getLogger().addHandler(logging.NullHandler())
    live = LiveTables(client, sources)
    task = asyncio.create_task(live.run())
    try:
        while not live.is_synced:
            await live.wait_changed(_MAX_REDRAW_SECONDS)
        yield live
    finally:
        task.cancel()
        await asyncio.wait([task])
