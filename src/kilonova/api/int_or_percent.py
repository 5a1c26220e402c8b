"""Fields that hold a number or a percentage (intstr.IntOrString). Pure."""

from kilonova.api.grove.common import IntOrPercent


def resolve_int_or_percent(
    amount: IntOrPercent | None, total: int, default: int, *, round_up: bool = False
) -> int:
    """The value of `2` or `25%` of `total`; percentages are rounded down unless `round_up`."""
    if amount is None:
        return default
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%"))
    return -(-total * percent // 100) if round_up else total * percent // 100


def resolve_max_surge(amount: IntOrPercent | None, total: int) -> int:
    """The value of maxSurge, rounded up: 0 if unset, and at most `total`."""
    return min(resolve_int_or_percent(amount, total, 0, round_up=True), total)
