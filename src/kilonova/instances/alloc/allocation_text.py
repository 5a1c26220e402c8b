"""An allocation as the text of `kilonova alloc`. Pure."""

from collections.abc import Iterator

from kilonova.component.command.output.formats import format_table
from kilonova.instances.alloc.allocation import Allocation, list_agents
from kilonova.scheduler.library.copies import CopyPod, PlacedCopy

_HEADER = ("AGENT", "NODE", "DEVICES", "DOMAIN")


def format_allocation(allocation: Allocation) -> str:
    """A table for each copy that fits; empty if none does."""
    return "\n\n".join("\n".join(_format_copy(copy)) for copy in allocation.copies.placed)


def _format_copy(copy: PlacedCopy) -> Iterator[str]:
    yield f"{copy.gang}" + (f" in {copy.domain}" if copy.domain else "")
    rows = [
        (agent, pod.node, _format_devices(pod), pod.domain or "-")
        for agent, pod in list_agents(copy)
    ]
    yield format_table(_HEADER, rows)
    for unit in copy.evicted:
        yield f"Evicted for it: {', '.join(unit.pods)} of {unit.gang}."


def _format_devices(pod: CopyPod) -> str:
    """The GPUs of a pod, else how much it has of other resources."""
    amounts = (f"{amount} {name}" for name, amount in pod.resources.items())
    return pod.devices or ", ".join(amounts) or "-"
