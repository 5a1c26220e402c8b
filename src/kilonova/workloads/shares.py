"""Numbers that may be written as a share of a whole. Pure."""

from kilonova.api.grove.parts import IntOrPercent


def count_of(amount: IntOrPercent | None, whole: int, default: int, *, up: bool = False) -> int:
    """How many of `whole` an amount means: `2`, or `25%`, rounded down unless `up`."""
    if amount is None:
        return default
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%"))
    return -(-whole * percent // 100) if up else whole * percent // 100


def surge_of(amount: IntOrPercent | None, whole: int) -> int:
    """How many more than `whole` an amount means, rounded up: none where it is not said, and never
    more than as many again, of which an update has no use."""
    return min(count_of(amount, whole, 0, up=True), whole)
