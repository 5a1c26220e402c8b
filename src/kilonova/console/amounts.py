"""Amounts of resources as plain numbers. Pure."""

from collections.abc import Mapping

from kilonova.api.quantity import QuantityError, from_json
from kilonova.console.objects import Container, PodSpec, Quantities
from kilonova.console.rows import Amounts

_NANO = 10**9
_MOST = (2**63 - 1) * _NANO
"""More does not count in Kubernetes either; templates and queues may say it nevertheless."""


def amount(quantity: str | int | float | None) -> float:
    """A quantity as a number; 0 where there is none that can be read."""
    if quantity is None:
        return 0.0
    try:
        nano = from_json(quantity).nano
    except QuantityError:
        return 0.0
    return max(-_MOST, min(nano, _MOST)) / _NANO


def amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    """Quantities as numbers, whole ones as such."""
    plain = {name: amount(each) for name, each in quantities.items()}
    return {name: int(each) if each.is_integer() else each for name, each in plain.items()}


def asked_for(spec: PodSpec, resource: str) -> float:
    """How much of a resource a pod asks for.

    What its containers ask for together with the init containers that go on beside them, or the
    most that one init container needs before.
    """
    beside = before = 0.0
    for each in spec.init_containers:
        own = _of(each, resource)
        if each.restart_policy == "Always":
            beside += own
        else:
            before = max(before, beside + own)
    return max(before, beside + sum(_of(each, resource) for each in spec.containers))


def _of(container: Container, resource: str) -> float:
    asked: Quantities = container.resources.requests
    return amount(asked.get(resource, container.resources.limits.get(resource)))
