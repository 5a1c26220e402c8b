"""`kilonova top`: watches a cluster, draws frames and handles keys."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import typer

from kilonova.cli.lists.table_sources import (
    LiveTables,
    TableSource,
    filter_readable,
    list_tables,
    owner_sources,
)
from kilonova.cli.lists.watch import follow_tables
from kilonova.cli.top.frame import Frame, ViewModel, render_all_pages, render_frame
from kilonova.cli.top.screen import Screen, acquire_screen, suspend_and_resume
from kilonova.cli.top.view_state import ViewState, apply_key, parse_keys
from kilonova.component.command.output import colours
from kilonova.kube import connect, load_client_config
from kilonova.kube.client.config.kubeconfig import default_kubeconfig_files, read_kubeconfig

_MIN_REDRAW_SECONDS = 0.2
"""Minimum interval between two frames, unless a key is pressed."""
_MAX_REDRAW_SECONDS = 2.0
"""Maximum interval between two frames."""

_SOURCES = (
    TableSource("nodes"),
    TableSource("pods"),
    TableSource("gangs", optional=True),
    *owner_sources(),
    TableSource("queues", optional=True),
)


async def print_once(kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Print all pages once, in full."""
    name = _cluster_name(kubeconfig, context)
    async with connect(kubeconfig, context) as client:
        tables = await list_tables(client, await filter_readable(client, _SOURCES))
    model = ViewModel(tables, name, time.time(), colours.should_use_colour(sys.stdout), namespace)
    typer.echo("\n".join(render_all_pages(model)), color=model.coloured)


async def run_live(kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Draw frames until `q`; Ctrl-C raises KeyboardInterrupt."""
    name = _cluster_name(kubeconfig, context)
    async with connect(kubeconfig, context) as client:
        # Errors at startup are raised before the alternate screen is entered.
        sources = await filter_readable(client, _SOURCES)
        with acquire_screen() as terminal:
            terminal.draw([f"{name}: loading …"])
            async with follow_tables(client, sources) as tables:
                await _LiveDisplay(tables, terminal, name, namespace).run()


class _LiveDisplay:
    """Draws a frame after a change or a key press."""

    def __init__(
        self, tables: LiveTables, terminal: Screen, name: str, namespace: str | None
    ) -> None:
        self._tables = tables
        self._terminal = terminal
        self._name = name
        self._namespace = namespace
        self._view_state: ViewState | None = ViewState()
        self._frame = Frame([], 0, 1)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._handle_input)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        loop.add_signal_handler(signal.SIGTSTP, suspend_and_resume, self._redraw)
        for each in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, self._close)
        try:
            while not self._is_closed():
                self._draw()
                await self._tables.wait_changed(_MAX_REDRAW_SECONDS)
                await asyncio.sleep(0 if self._is_closed() else _MIN_REDRAW_SECONDS)
        finally:
            loop.remove_reader(sys.stdin.fileno())

    def _handle_input(self) -> None:
        typed = self._terminal.read()
        if typed is None:
            self._close()
        for key in parse_keys(typed or ""):
            if self._view_state is not None:
                frame = self._frame
                clamped = self._view_state.scroll(0, frame.max_offset)
                self._view_state = apply_key(
                    clamped, key, page_lines=frame.page_lines, max_offset=frame.max_offset
                )
        if self._view_state is None:
            self._tables.wake()
        else:
            self._draw()

    def _is_closed(self) -> bool:
        return self._view_state is None

    def _close(self) -> None:
        self._view_state = None
        self._tables.wake()

    def _redraw(self) -> None:
        self._terminal.invalidate()
        self._draw()

    def _draw(self) -> None:
        if self._view_state is None:
            return
        model = ViewModel(
            self._tables.tables(),
            self._name,
            time.time(),
            colours.should_use_colour(sys.stdout),
            self._namespace,
            self._tables.error,
        )
        self._frame = render_frame(model, self._view_state, *self._terminal.size())
        self._terminal.draw(self._frame.lines)


def _cluster_name(kubeconfig: Path | None, context: str | None) -> str:
    """The name of the context, else the URL of the server."""
    access = load_client_config(kubeconfig, context)
    config = read_kubeconfig([kubeconfig] if kubeconfig else default_kubeconfig_files())
    return context or config.current_context or access.endpoint.server
