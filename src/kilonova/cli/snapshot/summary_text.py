"""A snapshot as the text of `kilonova snapshot show`."""

from datetime import UTC, datetime

from kilonova.api.times import format_rfc3339, human_duration
from kilonova.catalog.resource_names import GPU
from kilonova.cli.lists.queues import format_queue_table
from kilonova.component.command.output.formats import format_table, pluralize
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.library.queue_views import QueueView
from kilonova.scheduler.library.summary import (
    FragmentationSummary,
    GpuModelSummary,
    PendingGangSummary,
    SnapshotSummary,
)

_MAX_WAITING_ROWS = 50


def format_snapshot(summary: SnapshotSummary, queues: tuple[QueueView, ...]) -> str:
    """All sections of a snapshot, as text."""
    taken = format_rfc3339(datetime.fromtimestamp(summary.now, UTC))
    nodes, pods = pluralize(summary.nodes, "node"), pluralize(summary.pods, "pod")
    heading = (
        f"Taken {taken}: {nodes}, {pods} placed, "
        f"{pluralize(summary.placed_gangs, 'gang')} placed, {len(summary.pending_gangs)} pending, "
        f"{summary.not_ready} incomplete"
    )
    if summary.reservations:
        heading += f", {pluralize(summary.reservations, 'reservation')} with capacity"
    parts = [heading]
    if summary.gpus:
        parts += [_format_gpus(summary.gpus), _format_fragmentation(summary.fragments)]
    parts.append(format_queue_table(queues, GPU))
    if summary.pending_gangs:
        parts.append(_format_waiting_gangs(summary.pending_gangs, summary.now))
    return "\n\n".join(parts)


def _format_gpus(models: tuple[GpuModelSummary, ...]) -> str:
    header = ("GPU", "NODES", "DEVICES", "FREE", "PARTLY USED", "USED", "UNHEALTHY")
    rows = [
        (
            each.model or "(unknown)",
            *map(
                str,
                (
                    each.nodes,
                    each.devices,
                    each.free,
                    each.partly_used,
                    each.used,
                    each.unhealthy,
                ),
            ),
        )
        for each in models
    ]
    return format_table(header, rows)


def _format_fragmentation(fragments: FragmentationSummary) -> str:
    fits = ", ".join(f"{pods} × {size}" for size, pods in fragments.fits.items())
    free = fragments.free_milli / MILLI_PER_GPU
    partial = fragments.fragmented_milli / MILLI_PER_GPU
    return (
        f"Free capacity for pods with whole GPUs: {fits}. "
        f"Free {free:g} GPUs, {partial:g} of that on partly used GPUs."
    )


def _format_waiting_gangs(gangs: tuple[PendingGangSummary, ...], now: float) -> str:
    header = ("PENDING GANG", "QUEUE", "PRIORITY", "PODS", "AGE")
    rows = [
        (
            each.gang,
            each.queue,
            str(each.priority),
            str(each.pods),
            human_duration(now - each.since),
        )
        for each in gangs[:_MAX_WAITING_ROWS]
    ]
    more = len(gangs) - _MAX_WAITING_ROWS
    return format_table(header, rows) + (f"\nand {more} more: see -o json" if more > 0 else "")
