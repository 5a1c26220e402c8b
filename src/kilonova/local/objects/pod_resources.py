"""Effective requests of decoded pods. Pure."""

from collections.abc import Callable, Mapping

from kilonova.api.pods.resources import pod_requests
from kilonova.local.objects.core import PodSpec

Quantity = str | int | float


def effective_requests(spec: PodSpec, convert: Callable[[Quantity], int]) -> dict[str, int]:
    """The effective requests of a pod, in the unit that `convert` returns."""

    def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
        return {name: convert(each) for name, each in quantities.items()}

    return pod_requests(
        [amounts(each.resources.requests) for each in spec.containers],
        [(amounts(each.resources.requests), each.restart_policy) for each in spec.init_containers],
        amounts(spec.resources.requests),
        amounts(spec.overhead),
    )
