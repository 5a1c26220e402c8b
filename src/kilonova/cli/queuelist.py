"""Queues as a list: their columns, and how they are watched."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kilonova.cli import colours
from kilonova.cli.clusters import cluster_meant
from kilonova.cli.lookoptions import Form
from kilonova.cli.picturing import usual_settings
from kilonova.cli.printing import Printer
from kilonova.cli.queues import state_of
from kilonova.cli.reasons import explained
from kilonova.cli.screen import one_line
from kilonova.cli.sources import Source
from kilonova.cli.views import Tables
from kilonova.cli.watching import GONE, watch
from kilonova.kube import ConnectionFailed, connect
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.queueview import QueueView, queues_in

_SOURCES = (
    Source("queues", optional=True),
    Source("gangs", optional=True),
    Source("pods"),
    Source("nodes"),
)
"""On what amounts depend."""


def queue_printer(resource: str, form: Form, *, headers: bool) -> Printer[QueueView]:
    """Prints queues with their amounts of one resource; more of them in the wide form."""
    columns: dict[str, Callable[[QueueView], object]] = {
        "QUEUE": lambda view: "  " * view.depth + view.name,
        "DESERVED": lambda view: view.deserved.get(resource, "-"),
        "LIMIT": lambda view: view.limit.get(resource, "-"),
        "USED": lambda view: view.used.get(resource, 0),
        "REQUESTED": lambda view: view.requested.get(resource, 0),
        "FAIR SHARE": lambda view: view.fair_share.get(resource, 0),
        "PENDING": lambda view: view.pending_gangs,
        "READY": state_of,
    }
    if form == "wide":
        columns |= {
            "WEIGHT": lambda view: view.weight,
            "PRIORITY": lambda view: view.priority,
            "MESSAGE": lambda view: one_line(view.message) or "-",
        }
    return Printer(
        head=tuple(columns) if headers else None,
        cells=lambda view: tuple(str(cell(view)) for cell in columns.values()),
        states=frozenset({list(columns).index("READY")}),
        reference=lambda view: f"queue/{view.name}",
        key=lambda view: ("", view.name),
        form=form,
        coloured=colours.wanted(sys.stdout),
    )


def watch_queues(
    printer: Printer[QueueView],
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    require: Callable[[Picture], None],
) -> None:
    """Show queues whenever something changed on which their amounts depend, until cancelled;
    `require` may refuse what is there at first."""
    meant = cluster_meant(kubeconfig, context, data)
    with explained("look", "; whoever looks must be able to list nodes, pods, podgangs and queues"):
        asyncio.run(_watch(printer, meant, context, require))


async def _watch(
    printer: Printer[QueueView],
    kubeconfig: Path | None,
    context: str | None,
    require: Callable[[Picture], None],
) -> None:
    async with connect(kubeconfig, context) as client:
        settings = await usual_settings(client)

        async def looked() -> list[QueueView]:
            return list(queues_in((await capture(client, settings)).picture))

        # Refuses at once what would be tried for ever.
        first = (await capture(client, settings)).picture
        require(first)
        last = list(queues_in(first))

        async def choose(tables: Tables) -> list[QueueView]:
            nonlocal last
            # While nobody answers, what was seen stays; the watch says so, and asks again.
            with suppress(ConnectionFailed):
                last = await looked()
            return last

        await watch(client, _SOURCES, choose, printer, _gone)


def _gone(view: QueueView) -> QueueView:
    return replace(view, ready=False, reason=GONE)
