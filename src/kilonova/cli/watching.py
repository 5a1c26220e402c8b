"""Lists that go on: a table that is drawn again in place, or a line for each thing that changed."""

import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import typer

from kilonova.cli.printing import Printer
from kilonova.cli.screen import cropped, one_line
from kilonova.cli.sources import Following, Source
from kilonova.cli.views import Tables
from kilonova.kube import Client

V = TypeVar("V")

Choose: TypeAlias = Callable[[Tables], Awaitable[list[V]]]
"""What is shown, after something has changed."""

GONE = "Deleted"
"""How a thing is that is no longer there."""

_PACE = 0.25
"""Seconds between two pictures at least: what flickers can not be read."""
_AGES = 5.0
"""Seconds between two pictures at most: ages go on."""


async def watch(
    client: Client,
    sources: tuple[Source, ...],
    choose: Choose[V],
    printer: Printer[V],
    gone: Callable[[V], V],
) -> None:
    """Show things and their changes until cancelled, as suits who reads.

    `gone` is how a thing is shown, once more, that is no longer there.
    """
    if sys.stdout.isatty() and printer.form in ("table", "wide"):
        await _watch_on_terminal(client, sources, choose, printer)
    else:
        await _watch_to_stream(client, sources, choose, printer, gone)


async def _watch_on_terminal(
    client: Client,
    sources: tuple[Source, ...],
    choose: Choose[V],
    printer: Printer[V],
) -> None:
    """Draw the table again where it stands whenever something changed, until cancelled."""
    drawn = 0
    async with followed(client, sources) as following:
        while True:
            size = shutil.get_terminal_size()
            lines = printer.table(await choose(following.tables()))
            if following.trouble:
                lines.append(_currency(following.trouble))
            most = size.lines - 1
            if len(lines) > most:
                lines[most - 1 :] = [f"… and {len(lines) - most + 1} more"]
            up = f"\x1b[{drawn}A" if drawn else ""
            text = "".join(f"\x1b[K{cropped(line, size.columns - 1)}\n" for line in lines)
            typer.echo(f"{up}{text}\x1b[J", nl=False, color=True)
            drawn = len(lines)
            await following.changed(_AGES)
            await asyncio.sleep(_PACE)


async def _watch_to_stream(
    client: Client,
    sources: tuple[Source, ...],
    choose: Choose[V],
    printer: Printer[V],
    gone: Callable[[V], V],
) -> None:
    """Print all, then whatever changes, as it changes, until cancelled."""
    known: dict[tuple[str, str], V] = {}
    printed = printer.printed_as_it_changes()
    stale = False
    async with followed(client, sources) as following:
        while True:
            if stale != bool(following.trouble):
                stale = not stale
                typer.echo(f"kilonova: {_currency(following.trouble)}", err=True)
            now = {printer.key(view): view for view in await choose(following.tables())}
            left = [gone(view) for key, view in known.items() if key not in now]
            printed(left + [view for key, view in now.items() if known.get(key) != view])
            known = now
            await following.changed(_AGES)
            await asyncio.sleep(_PACE)


def _currency(trouble: str) -> str:
    """Whether what is shown is what is so, and why not."""
    return f"Not up to date, trying again: {one_line(trouble)}" if trouble else "Up to date again"


@asynccontextmanager
async def followed(client: Client, sources: tuple[Source, ...]) -> AsyncGenerator[Following]:
    """Rows of a cluster, complete, and kept so inside of the context."""
    # What goes wrong is shown in its place; a log would be in the way.
    logging.getLogger().addHandler(logging.NullHandler())
    following = Following(client, sources)
    task = asyncio.create_task(following.run())
    try:
        while not following.filled:
            await following.changed(_AGES)
        yield following
    finally:
        task.cancel()
        await asyncio.wait([task])
