"""Decisions, as `kilonova snapshot replay` and `kilonova plan` print them."""

from datetime import UTC, datetime

from kilonova.api.times import rfc3339
from kilonova.cli.screen import tamed
from kilonova.cli.tables import table
from kilonova.scheduler.decisions import Decisions
from kilonova.scheduler.reading.gangs import lone_name

_LONE = lone_name("")


def decisions_text(decisions: Decisions) -> str:
    """Who gets a place and where, who has to go for it, who gets none and why."""
    pods = [
        ("-" if gang.gang.startswith(_LONE) else gang.gang, pod.pod, pod.node, pod.devices or "-")
        for gang in decisions.placed
        for pod in gang.pods
    ]
    evicted = [
        (pod, unit.gang, gang.gang)
        for gang in decisions.placed
        for unit in gang.evicted
        for pod in unit.pods
    ]
    parts: list[str] = []
    if pods:
        parts.append(table(("PLACED GANG", "POD", "NODE", "DEVICES"), pods))
    if evicted:
        parts.append(table(("EVICTED POD", "GANG", "FOR"), evicted))
    if decisions.refused:
        rows = [(each.gang, each.queue or "-", each.reason) for each in decisions.refused]
        parts.append(table(("REFUSED GANG", "QUEUE", "REASON"), rows))
        parts += [tamed(f"{each.gang}: {each.message}") for each in decisions.refused]
    kept = decisions.reservation
    if kept is not None:
        at = rfc3339(datetime.fromtimestamp(kept.at, UTC))
        room = f"Room is kept for {kept.gang} on {', '.join(kept.nodes)} from {at} on."
        parts.append(tamed(room))
    return "\n\n".join(parts) or "Nobody waits."
