"""What `kilonova top` does: follow a cluster, draw it, obey keys."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import typer

from kilonova.cli import colours
from kilonova.cli.served import served_on
from kilonova.cli.sources import Following, Source, listed, owner_sources, readable
from kilonova.cli.topframe import Frame, Scene, frame, whole
from kilonova.cli.toplook import Look, keys_in, pressed
from kilonova.cli.topterminal import Terminal, stop_and_go_on, taken_terminal
from kilonova.cli.watching import followed
from kilonova.kube import connect, find_access
from kilonova.kube.kubeconfig import kubeconfig_files, read_kubeconfig

_PACE = 0.2
"""Seconds between two pictures at least, unless a key is pressed."""
_AGES = 2.0
"""Seconds between two pictures at most."""

_SOURCES = (
    Source("nodes"),
    Source("pods"),
    Source("gangs", optional=True),
    *owner_sources(),
    Source("queues", optional=True),
)


async def print_once(kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """One picture, as long as it gets."""
    name = _cluster_name(kubeconfig, context)
    async with connect(kubeconfig, context) as client:
        tables = await listed(client, await readable(client, _SOURCES))
        served = await served_on(client)
    scene = Scene(tables, name, time.time(), colours.wanted(sys.stdout), served, namespace)
    typer.echo("\n".join(whole(scene)), color=scene.coloured)


async def live(kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Pictures until `q`; Ctrl-C is KeyboardInterrupt, as everywhere."""
    name = _cluster_name(kubeconfig, context)
    async with connect(kubeconfig, context) as client:
        # What is wrong from the start is better said on the usual screen.
        sources = await readable(client, _SOURCES)
        served = await served_on(client)
        with taken_terminal() as terminal:
            terminal.draw([f"{name}: looking …"])
            async with followed(client, sources) as following:
                await _Show(following, terminal, name, served, namespace).run()


class _Show:
    """Draws when something changed, or a key was pressed."""

    def __init__(
        self,
        following: Following,
        terminal: Terminal,
        name: str,
        served: frozenset[str],
        namespace: str | None,
    ) -> None:
        self._following = following
        self._terminal = terminal
        self._name = name
        self._served = served
        self._namespace = namespace
        self._look: Look | None = Look()
        self._drawn = Frame([], 0, 1)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._type)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        loop.add_signal_handler(signal.SIGTSTP, stop_and_go_on, self._draw_all)
        for each in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, self._leave)
        try:
            while not self._left():
                self._draw()
                await self._following.changed(_AGES)
                await asyncio.sleep(0 if self._left() else _PACE)
        finally:
            loop.remove_reader(sys.stdin.fileno())

    def _type(self) -> None:
        typed = self._terminal.read()
        if typed is None:
            self._leave()
        for key in keys_in(typed or ""):
            if self._look is not None:
                drawn = self._drawn
                look = self._look.scrolled(0, drawn.last)
                self._look = pressed(look, key, page_lines=drawn.page_lines, last=drawn.last)
        if self._look is None:
            self._following.touch()
        else:
            self._draw()

    def _left(self) -> bool:
        return self._look is None

    def _leave(self) -> None:
        self._look = None
        self._following.touch()

    def _draw_all(self) -> None:
        self._terminal.forget()
        self._draw()

    def _draw(self) -> None:
        if self._look is None:
            return
        scene = Scene(
            self._following.tables(),
            self._name,
            time.time(),
            colours.wanted(sys.stdout),
            self._served,
            self._namespace,
            self._following.trouble,
        )
        self._drawn = frame(scene, self._look, *self._terminal.size())
        self._terminal.draw(self._drawn.lines)


def _cluster_name(kubeconfig: Path | None, context: str | None) -> str:
    """As the context is called, else where the server is."""
    access = find_access(kubeconfig, context)
    config = read_kubeconfig([kubeconfig] if kubeconfig else kubeconfig_files())
    return context or config.current_context or access.endpoint.server
