"""A snapshot, as `kilonova snapshot show` prints it."""

from datetime import UTC, datetime

from kilonova.api.times import human_duration, rfc3339
from kilonova.cli.queues import queue_table
from kilonova.cli.tables import counted, table
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.snapshot import GPU
from kilonova.scheduler.queueview import QueueView
from kilonova.scheduler.summary import Fragments, GpuModel, Summary, WaitingGang

_MOST = 50


def shown(summary: Summary, queues: tuple[QueueView, ...]) -> str:
    """All of it, for people."""
    taken = rfc3339(datetime.fromtimestamp(summary.now, UTC))
    head = (
        f"Taken {taken}: {counted(summary.nodes, 'node')}, {counted(summary.pods, 'pod')} on them, "
        f"{counted(summary.standing, 'gang')} placed, {len(summary.waiting)} waiting, "
        f"{summary.not_yet} not complete yet"
    )
    if summary.reservations:
        head += f", {counted(summary.reservations, 'reservation')} with room"
    parts = [head]
    if summary.gpus:
        parts += [_gpus(summary.gpus), _fragments(summary.fragments)]
    parts.append(queue_table(queues, GPU))
    if summary.waiting:
        parts.append(_waiting(summary.waiting, summary.now))
    return "\n\n".join(parts)


def _gpus(models: tuple[GpuModel, ...]) -> str:
    head = ("GPU", "NODES", "DEVICES", "FREE", "PARTLY USED", "USED", "UNHEALTHY")
    rows = [
        (
            each.model or "(unknown)",
            *map(
                str,
                (
                    each.nodes,
                    each.devices,
                    each.free,
                    each.part_used,
                    each.used,
                    each.unhealthy,
                ),
            ),
        )
        for each in models
    ]
    return table(head, rows)


def _fragments(fragments: Fragments) -> str:
    fits = ", ".join(f"{pods} × {size}" for size, pods in fragments.fits.items())
    free, split = fragments.free_milli / WHOLE, fragments.split_milli / WHOLE
    return f"Room for pods with whole GPUs: {fits}. Free {free:g} GPUs, {split:g} of that in parts."


def _waiting(gangs: tuple[WaitingGang, ...], now: float) -> str:
    head = ("WAITING GANG", "QUEUE", "PRIORITY", "PODS", "AGE")
    rows = [
        (
            each.gang,
            each.queue,
            str(each.priority),
            str(each.pods),
            human_duration(now - each.since),
        )
        for each in gangs[:_MOST]
    ]
    more = len(gangs) - _MOST
    return table(head, rows) + (f"\nand {more} more: see -o json" if more > 0 else "")
