"""Amounts and moments as people write them."""

from datetime import UTC, datetime

from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.snapshot import GPU

_BYTES = ("memory", "ephemeral-storage")
_UNITS = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def amount(resource: str, number: float) -> str:
    """So much of a resource of a node: `8 nvidia.com/gpu`, `1500m cpu`, `12Gi memory`."""
    return f"{figure(resource, number)} {resource}"


def figure(resource: str, number: float) -> str:
    """The number alone."""
    if resource == GPU:
        return _decimal(number)
    if resource == "cpu":
        return f"{number // 1000}" if number % 1000 == 0 else f"{number}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for unit, size in _UNITS:
            if number >= size:
                return f"{number / size:.4g}{unit}"
    return str(number)


def queue_figure(resource: str, number: int) -> str:
    """A number as queues count it: GPUs in milli."""
    if resource != GPU:
        return figure(resource, number)
    return _decimal(number / WHOLE)


def _decimal(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


def pods(number: int) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} pod" if number == 1 else f"{number} pods"


def moment(at: float) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def some(names: list[str] | tuple[str, ...], most: int = 3) -> str:
    """The first few of some names."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
