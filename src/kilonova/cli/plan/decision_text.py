"""Scheduling decisions as the text of `kilonova plan` and `kilonova snapshot replay`."""

from datetime import UTC, datetime

from kilonova.api.times import format_rfc3339
from kilonova.component.command.output.formats import format_table
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.scheduler.convert.gangs.podgangs import single_pod_gang_name
from kilonova.scheduler.library.decisions import SchedulingDecisions

_SINGLE_POD_PREFIX = single_pod_gang_name("")


def format_decisions(decisions: SchedulingDecisions) -> str:
    """Tables of placed pods, evicted pods, and rejected gangs with their reasons."""
    pods = [
        (
            "-" if gang.gang.startswith(_SINGLE_POD_PREFIX) else gang.gang,
            pod.pod,
            pod.node,
            pod.devices or "-",
        )
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
        parts.append(format_table(("PLACED GANG", "POD", "NODE", "DEVICES"), pods))
    if evicted:
        parts.append(format_table(("EVICTED POD", "GANG", "FOR"), evicted))
    if decisions.rejected:
        rows = [(each.gang, each.queue or "-", each.reason) for each in decisions.rejected]
        parts.append(format_table(("REJECTED GANG", "QUEUE", "REASON"), rows))
        parts += [
            strip_control_characters(f"{each.gang}: {each.message}") for each in decisions.rejected
        ]
    reservation = decisions.reservation
    if reservation is not None:
        start = format_rfc3339(datetime.fromtimestamp(reservation.at, UTC))
        nodes = ", ".join(reservation.nodes)
        text = f"Capacity is reserved for {reservation.gang} on {nodes} from {start} on."
        parts.append(strip_control_characters(text))
    return "\n\n".join(parts) or "No gangs are pending."
