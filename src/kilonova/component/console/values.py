"""Values of API objects as plain values of rows. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from kilonova.api.meta import Condition
from kilonova.api.quantity import QuantityError, quantity_from_json
from kilonova.api.times import parse_time

Amounts = dict[str, int | float]
"""Amounts by resource name: `{"nvidia.com/gpu": 8}`."""


class ConditionRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: float | None = None


_NANO = 10**9
_MAX_NANO = (2**63 - 1) * _NANO
"""The limit of Kubernetes quantities; templates and queues are not validated against it."""


def parse_quantity(quantity: str | int | float | None) -> float:
    """A quantity as a number; 0 if missing or invalid."""
    if quantity is None:
        return 0.0
    try:
        nano = quantity_from_json(quantity).nano
    except QuantityError:
        return 0.0
    return max(-_MAX_NANO, min(nano, _MAX_NANO)) / _NANO


def parse_quantities(quantities: Mapping[str, str | int | float]) -> Amounts:
    """Quantities as numbers; integers where exact."""
    plain = {name: parse_quantity(each) for name, each in quantities.items()}
    return {name: int(each) if each.is_integer() else each for name, each in plain.items()}


def parse_timestamp(text: str | None) -> float | None:
    """A timestamp of the API in seconds since the epoch; None if missing or invalid."""
    if not text:
        return None
    try:
        return parse_time(text).timestamp()
    except ValueError:
        return None


def condition_rows(conditions: Iterable[Condition]) -> tuple[ConditionRow, ...]:
    """The conditions of an object, for a section with them."""
    return tuple(
        ConditionRow(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            since=parse_timestamp(each.last_transition_time),
        )
        for each in conditions
    )
