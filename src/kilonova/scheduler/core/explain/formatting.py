"""Amounts, times and names in messages."""

from datetime import UTC, datetime

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU

_BYTES = ("memory", "ephemeral-storage")
_UNITS = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def format_amount(resource: str, number: float) -> str:
    """An amount of a node's resource: `8 nvidia.com/gpu`, `1500m cpu`, `12Gi memory`."""
    return f"{format_number(resource, number)} {resource}"


def format_number(resource: str, number: float) -> str:
    """The number without the resource."""
    if resource == GPU:
        return _format_decimal(number)
    if resource == "cpu":
        return f"{number // 1000}" if number % 1000 == 0 else f"{number}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for unit, size in _UNITS:
            if number >= size:
                return f"{number / size:.4g}{unit}"
    return str(number)


def format_queue_amount(resource: str, number: int) -> str:
    """An amount in the units of queues: GPUs in milli."""
    if resource != GPU:
        return format_number(resource, number)
    return _format_decimal(number / MILLI_PER_GPU)


def _format_decimal(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


def format_pods(number: int) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} pod" if number == 1 else f"{number} pods"


def format_time(at: float) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_names(names: list[str] | tuple[str, ...], max_names: int = 3) -> str:
    """The first few of some names."""
    shown = ", ".join(names[:max_names])
    return f"{shown} and {len(names) - max_names} more" if len(names) > max_names else shown
