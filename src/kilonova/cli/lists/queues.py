"""The list of queues: its columns and texts, and watching it."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import typer

from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.catalog.resource_names import GPU
from kilonova.cli.lists.table_sources import TableSource
from kilonova.cli.lists.views import Tables
from kilonova.cli.lists.watch import DELETED, watch_list
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig
from kilonova.component.command.output import colours
from kilonova.component.command.output.format_names import ListFormat
from kilonova.component.command.output.formats import format_table
from kilonova.component.command.output.list_printer import ListPrinter
from kilonova.component.command.output.terminal_text import strip_control_characters, to_one_line
from kilonova.component.failure import CommandFailed
from kilonova.kube import ConnectionFailed, connect
from kilonova.scheduler.library.queue_views import QueueView, read_queue_views
from kilonova.scheduler.library.snapshots.capture import CapturedSnapshot, capture_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.objects.core_v1 import QUEUES
from kilonova.scheduler.snapshot_source import default_scheduler_settings

_SOURCES = (
    TableSource("queues", optional=True),
    TableSource("gangs", optional=True),
    TableSource("pods"),
)
"""Queues, and the objects that are named as pending in them."""


def build_queue_printer(
    resource: str, output_format: ListFormat, *, headers: bool
) -> ListPrinter[QueueView]:
    """A printer of queues with their amounts of one resource; wide adds columns."""
    columns: dict[str, Callable[[QueueView], object]] = {
        "QUEUE": lambda view: "  " * view.depth + view.name,
        "DESERVED": lambda view: view.deserved.get(resource, "-"),
        "LIMIT": lambda view: view.limit.get(resource, "-"),
        "USED": lambda view: view.used.get(resource, 0) if view.is_observed else "-",
        "REQUESTED": lambda view: view.requested.get(resource, 0) if view.is_observed else "-",
        "FAIR SHARE": lambda view: view.fair_share.get(resource, 0) if view.is_observed else "-",
        "PENDING": lambda view: view.pending_gangs if view.is_observed else "-",
        "READY": format_ready_state,
    }
    if output_format == "wide":
        columns |= {
            "WEIGHT": lambda view: view.weight,
            "PRIORITY": lambda view: view.priority,
            "MESSAGE": lambda view: to_one_line(view.message) or "-",
        }
    return ListPrinter(
        header=tuple(columns) if headers else None,
        cells=lambda view: tuple(str(cell(view)) for cell in columns.values()),
        state_columns=frozenset({list(columns).index("READY")}),
        reference=lambda view: f"queue/{view.name}",
        key=lambda view: ("", view.name),
        output_format=output_format,
        coloured=colours.should_use_colour(sys.stdout),
    )


def watch_queues(
    printer: ListPrinter[QueueView],
    resource: str,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
) -> None:
    """Print queues whenever they change, until cancelled."""
    resolved = resolve_kubeconfig(kubeconfig, context, data)
    with translate_cluster_errors(
        "read from", "; listing nodes, pods, podgangs and queues must be allowed"
    ):
        asyncio.run(_connect_and_watch(printer, resource, resolved, context))


async def _connect_and_watch(
    printer: ListPrinter[QueueView], resource: str, kubeconfig: Path | None, context: str | None
) -> None:
    async with connect(kubeconfig, context) as client:
        settings = await default_scheduler_settings(client)

        # The first capture fails at once on errors that the watch would retry for ever.
        first = await capture_snapshot(client, settings)
        last = list(captured_queue_views(first))
        validate_resource(resource, first.cluster_snapshot, last)
        warn_without_default_queue(first)

        async def refresh(tables: Tables) -> list[QueueView]:
            nonlocal last
            # While the server is unreachable the last views stay; the watch reports it and retries.
            with suppress(ConnectionFailed):
                last = list(captured_queue_views(await capture_snapshot(client, settings)))
            return last

        await watch_list(client, _SOURCES, refresh, printer, _mark_deleted)


def captured_queue_views(captured: CapturedSnapshot) -> tuple[QueueView, ...]:
    """The queues of a live cluster, with the status that its scheduler wrote."""
    return read_queue_views(captured.queues, captured.cluster_snapshot.pending_gangs)


def warn_without_default_queue(captured: CapturedSnapshot) -> None:
    """Say why the default queue of a live cluster is not listed, if it is not."""
    if QUEUES.full_name in captured.unknown_kinds:
        problem = f"the cluster has no {QUEUES.full_name}: run `kilonova install`"
    elif not any(queue.metadata.name == DEFAULT_QUEUE for queue in captured.queues):
        problem = f"there is no queue {DEFAULT_QUEUE!r} yet: a running scheduler creates it"
    else:
        return
    typer.echo(f"kilonova: {problem}", err=True)


def _mark_deleted(view: QueueView) -> QueueView:
    return replace(view, ready=False, reason=DELETED)


def validate_resource(
    resource: str, cluster_snapshot: ClusterSnapshot, views: Iterable[QueueView]
) -> None:
    """Reject a resource that is unknown to nodes, queues and pods: a table of zeros would
    mislead."""
    known = {GPU}
    for node in cluster_snapshot.nodes:
        known |= {name for name in node.allocatable if name != "pods"}
    for queue in cluster_snapshot.queues:
        known |= {*queue.deserved, *queue.limit}
    for view in views:
        known |= {*view.used, *view.requested}
    if resource not in known:
        names = ", ".join(sorted(known))
        reason = "no node has it, no queue names it and no pod requests it"
        if resource == "pods":
            reason = "queues do not count pods, and none limits them"
        raise CommandFailed(f"--resource {resource}: {reason}: known are {names}")


def format_queue_table(views: tuple[QueueView, ...], resource: str) -> str:
    """All queues as a tree, with their amounts of one resource."""
    lines = build_queue_printer(resource, "table", headers=True).format_lines(views)
    return "\n".join([*lines, "", f"Amounts of {resource}."])


def format_queue(view: QueueView) -> str:
    """All details of a queue, as text."""
    lines = [
        f"Queue {view.name}" + (f", child of {view.parent}" if view.parent else ""),
        f"Weight {view.weight}, priority {view.priority}",
        strip_control_characters(f"Ready: {format_ready_state(view)}, {view.message}"),
    ]
    amounts = (view.deserved, view.limit, view.used, view.requested, view.fair_share)
    names = sorted({name for each in amounts for name in each})
    if names:
        header = ("RESOURCE", "DESERVED", "LIMIT", "USED", "REQUESTED", "FAIR SHARE")
        rows = [(name, *(str(each.get(name, "-")) for each in amounts)) for name in names]
        lines += ["", format_table(header, rows)]
    if view.pending_gang_names:
        lines += [
            "",
            "Pending gangs:",
            *(strip_control_characters(f"  {name}") for name in view.pending_gang_names),
        ]
    elif view.pending_gangs:
        lines += ["", f"{view.pending_gangs} gangs are pending in its child queues."]
    return "\n".join(lines)


def format_ready_state(view: QueueView) -> str:
    """The READY column: whether gangs of the queue are scheduled, and the reason."""
    if not view.ready:
        return f"no ({view.reason})"
    return "yes" if view.reason == "QueueReady" else f"yes ({view.reason})"
