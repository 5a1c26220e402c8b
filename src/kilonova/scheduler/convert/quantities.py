"""Resource quantities as integers: CPU in milli-CPU, everything else in units."""

from collections.abc import Mapping

from kilonova.api.quantity import Format, Quantity, QuantityError, quantity_from_json
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU

Quantities = Mapping[str, str | int | float]

_NANO = 10**9
_NANO_IN_MILLI = 10**6
MAX_AMOUNT = 1 << 62
"""Larger amounts are capped: the sum of two still fits 64 bits."""


def convert_quantities(quantities: Quantities) -> dict[str, int]:
    """Amounts by resource. An invalid quantity counts as 0: the API server accepts none."""
    if not quantities:  # most pods have neither overhead nor pod-level requests
        return {}
    return {name: _convert_quantity(name, quantity) for name, quantity in quantities.items()}


def convert_queue_quantities(quantities: Quantities) -> dict[str, int]:
    """Amounts as queues count them: GPUs in milli-GPUs, too."""
    amounts = convert_quantities(quantities)
    if GPU in quantities:
        amounts[GPU] = _parse_milli(quantities[GPU])
    return amounts


def format_amount(resource: str, amount: int) -> str:
    """An amount of a queue for messages: `2.5 nvidia.com/gpu`, `64Gi memory`."""
    if resource in (GPU, "cpu"):
        number = amount / MILLI_PER_GPU
        return f"{int(number) if number.is_integer() else number} {resource}"
    if resource == "memory" or resource.endswith("storage"):
        return f"{_format_binary(amount)} {resource}"
    return f"{amount} {resource}"


def encode_quantity(resource: str, amount: int) -> str:
    """An amount of a queue as a Kubernetes quantity: `2500m`, `64Gi`."""
    if resource in (GPU, "cpu"):
        return str(Quantity(amount * _NANO_IN_MILLI))
    is_bytes = resource == "memory" or resource.endswith("storage")
    return str(Quantity(amount * _NANO, Format.BINARY if is_bytes else Format.DECIMAL))


def _convert_quantity(name: str, quantity: str | int | float) -> int:
    if name == "cpu":
        return _parse_milli(quantity)
    try:
        return min(quantity_from_json(quantity).value, MAX_AMOUNT)
    except QuantityError:
        return 0


def _parse_milli(quantity: str | int | float) -> int:
    try:
        return min(quantity_from_json(quantity).milli, MAX_AMOUNT)
    except QuantityError:
        return 0


def _format_binary(amount: int) -> str:
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if amount < 1024 or amount % 1024:
            return f"{amount}{suffix}"
        amount //= 1024
    return f"{amount}Pi"
