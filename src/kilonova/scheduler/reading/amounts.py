"""Amounts of resources as whole numbers: cpu in thousandths, everything else in units."""

from collections.abc import Mapping

from kilonova.api.quantity import Format, Quantity, QuantityError, from_json
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.snapshot import GPU

Quantities = Mapping[str, str | int | float]

_NANO = 10**9
_NANO_IN_MILLI = 10**6
MOST = 1 << 62
"""What is more than this counts as this: a sum of two is still a number of 64 bits."""


def amounts_of(quantities: Quantities) -> dict[str, int]:
    """By resource. What nobody can read counts as nothing: the API server lets none of it pass."""
    return {name: _amount(name, quantity) for name, quantity in quantities.items()}


def queue_amounts(quantities: Quantities) -> dict[str, int]:
    """As queues count: GPUs in thousandths, too."""
    amounts = amounts_of(quantities)
    if GPU in quantities:
        amounts[GPU] = _milli(quantities[GPU])
    return amounts


def amount_text(resource: str, amount: int) -> str:
    """What queues count, as people write it: `2.5 GPUs`, `64Gi memory`."""
    if resource in (GPU, "cpu"):
        number = amount / WHOLE
        return f"{int(number) if number.is_integer() else number} {resource}"
    if resource == "memory" or resource.endswith("storage"):
        return f"{_binary(amount)} {resource}"
    return f"{amount} {resource}"


def quantity_of(resource: str, amount: int) -> str:
    """What queues count, as Kubernetes writes it: `2500m`, `64Gi`."""
    if resource in (GPU, "cpu"):
        return str(Quantity(amount * _NANO_IN_MILLI))
    is_bytes = resource == "memory" or resource.endswith("storage")
    return str(Quantity(amount * _NANO, Format.BINARY if is_bytes else Format.DECIMAL))


def _amount(name: str, quantity: str | int | float) -> int:
    if name == "cpu":
        return _milli(quantity)
    try:
        return min(from_json(quantity).value, MOST)
    except QuantityError:
        return 0


def _milli(quantity: str | int | float) -> int:
    try:
        return min(from_json(quantity).milli, MOST)
    except QuantityError:
        return 0


def _binary(amount: int) -> str:
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if amount < 1024 or amount % 1024:
            return f"{amount}{suffix}"
        amount //= 1024
    return f"{amount}Pi"
