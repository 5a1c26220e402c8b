"""ResourceLists of pods: their sums, and the defaults of requests. Pure."""

from collections.abc import Iterable
from typing import Literal

from kilonova.api.json import JsonObject
from kilonova.api.pods.resources import (
    HUGE_PAGES_PREFIX,
    is_pod_level_resource,
    pod_limits,
    pod_requests,
    sum_containers,
)
from kilonova.api.quantity import Quantity, quantity_from_json
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects

ResourceList = dict[str, Quantity]
ResourceField = Literal["requests", "limits"]


def parse_resource_list(values: JsonObject) -> ResourceList:
    """Parse a map of quantities."""
    return {name: quantity_from_json(value) for name, value in values.items()}


def pod_resources(spec: JsonObject, field: ResourceField, *, overhead: bool = True) -> ResourceList:
    """The effective requests or limits of a whole pod."""
    compute = pod_requests if field == "requests" else pod_limits
    return compute(
        _parse_containers(spec, field),
        _parse_init_containers(spec, field),
        parse_resource_list(nested_object(spec, "resources", field)),
        parse_resource_list(nested_object(spec, "overhead")) if overhead else {},
    )


def set_default_requests(spec: JsonObject) -> None:
    """Set the requests of a pod and its containers that follow from limits, as of a new pod."""
    for container in (*nested_objects(spec, "containers"), *nested_objects(spec, "initContainers")):
        _default_requests_to_limits(nested_object(container, "resources"))
    _default_pod_level_resources(spec)


def format_resources(names: Iterable[str], resources: ResourceList) -> str:
    """Format amounts: `cpu=500m,pods=1`."""
    return ",".join(f"{name}={resources[name]}" for name in sorted(names) if name in resources)


def _default_requests_to_limits(resources: JsonObject) -> None:
    if limits := resources.get("limits"):
        requests = ensure_object(resources, "requests")
        for name, value in limits.items():
            requests.setdefault(name, value)


def _default_pod_level_resources(spec: JsonObject) -> None:
    """Default the pod-level resources of a pod that has some.

    Huge pages cannot be overcommitted: their limit defaults to that of the containers. Where there
    are limits, requests default to those of the containers, else to the pod-level limits.
    """
    resources = nested_object(spec, "resources")
    if not resources.get("limits") and not resources.get("requests"):
        return
    for name, amount in _container_resources(spec, "limits").items():
        if name.startswith(HUGE_PAGES_PREFIX) and name not in nested_object(resources, "requests"):
            ensure_object(resources, "limits").setdefault(name, str(amount))
    limits = nested_object(resources, "limits")
    if not limits:
        return
    requests = ensure_object(resources, "requests")
    for name, amount in _container_resources(spec, "requests").items():
        if is_pod_level_resource(name) and not name.startswith(HUGE_PAGES_PREFIX):
            requests.setdefault(name, str(amount))
    for name, value in limits.items():
        if is_pod_level_resource(name):
            requests.setdefault(name, value)


def _container_resources(spec: JsonObject, field: ResourceField) -> ResourceList:
    """The effective requests or limits of a pod's containers, without those of the pod itself."""
    return sum_containers(_parse_containers(spec, field), _parse_init_containers(spec, field))


def _parse_containers(spec: JsonObject, field: ResourceField) -> list[ResourceList]:
    return [
        parse_resource_list(nested_object(each, "resources", field))
        for each in nested_objects(spec, "containers")
    ]


def _parse_init_containers(
    spec: JsonObject, field: ResourceField
) -> list[tuple[ResourceList, str | None]]:
    return [
        (parse_resource_list(nested_object(each, "resources", field)), each.get("restartPolicy"))
        for each in nested_objects(spec, "initContainers")
    ]
