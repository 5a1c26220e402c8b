"""Requests of pods as plain numbers. Pure."""

from collections.abc import Mapping

from kilonova.api.pods.resources import pod_requests
from kilonova.component.console.values import parse_quantity
from kilonova.console.objects import Container, PodSpec


def effective_requests(spec: PodSpec) -> dict[str, float]:
    """The effective requests of a pod."""
    return pod_requests(
        [_container_requests(each) for each in spec.containers],
        [(_container_requests(each), each.restart_policy) for each in spec.init_containers],
        _parse_numbers(spec.resources.requests),
        _parse_numbers(spec.overhead),
    )


def _container_requests(container: Container) -> dict[str, float]:
    # Requests default to limits, and a template is not defaulted.
    resources = container.resources
    return _parse_numbers(resources.limits | resources.requests)


def _parse_numbers(quantities: Mapping[str, str | int | float]) -> dict[str, float]:
    return {name: parse_quantity(each) for name, each in quantities.items()}
