"""Resolves the target of a proxied request: the pod and port of a name like `https:web:8080`."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, bad_request, not_found
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects

FindObject = Callable[[str, str], JsonObject | None]
"""A resource's object by namespace and name."""

_SCHEMES = ("", "http", "https")


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """A port of a pod, and its scheme."""

    pod: JsonObject
    port: int
    tls: bool


def resolve_pod(namespace: str, reference: str, find_pod: FindObject) -> ProxyTarget:
    """The named pod; without a port, the first that it declares, or 80 (443)."""
    scheme, name, port = _split_reference(reference, "pod")
    pod = find_pod(namespace, name)
    if pod is None:
        raise not_found("", "pods", name)
    if not nested_object(pod, "spec").get("nodeName"):
        raise bad_request("address not allowed")
    if not port:
        declared = [
            each["containerPort"]
            for container in nested_objects(pod, "spec", "containers")
            for each in nested_objects(container, "ports")
        ]
        port = str(declared[0]) if declared else ("443" if scheme == "https" else "80")
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= 0xFFFF):
        raise _unavailable_error(f'error trying to reach service: invalid port "{port}"')
    return ProxyTarget(pod, int(port), scheme == "https")


def resolve_service(
    namespace: str,
    reference: str,
    find_service: FindObject,
    find_pod: FindObject,
    slices: Callable[[str, str], list[JsonObject]],
    random: Random,
) -> ProxyTarget:
    """Any ready pod of the service."""
    scheme, name, port = _split_reference(reference, "service")
    service = find_service(namespace, name)
    if service is None:
        raise not_found("", "services", name)
    if port.isascii() and port.isdecimal():
        port = _port_name(service, int(port), name)
    ready = [
        (target["name"], number)
        for each in slices(namespace, name)
        if (number := _port_number(each, port)) is not None
        for endpoint in nested_objects(each, "endpoints")
        if nested_object(endpoint, "conditions").get("ready") is not False
        and (target := nested_object(endpoint, "targetRef")).get("kind") == "Pod"
    ]
    random.shuffle(ready)
    for pod_name, number in ready:
        pod = find_pod(namespace, pod_name)
        if pod is not None:
            return ProxyTarget(pod, number, scheme == "https")
    raise _unavailable_error(f'no endpoints available for service "{reference if ready else name}"')


def _split_reference(reference: str, what: str) -> tuple[str, str, str]:
    parts = reference.split(":")
    if len(parts) < 3:
        parts = ["", *parts, ""][:3]
    if len(parts) > 3 or not parts[1] or parts[0] not in _SCHEMES:
        raise bad_request(f'invalid {what} request "{reference}"')
    return parts[0], parts[1], parts[2]


def _port_name(service: JsonObject, number: int, name: str) -> str:
    for each in nested_objects(service, "spec", "ports"):
        if each["port"] == number:
            return each.get("name", "")
    raise _unavailable_error(f'no service port {number} found for service "{name}"')


def _port_number(endpoint_slice: JsonObject, name: str) -> int | None:
    for each in nested_objects(endpoint_slice, "ports"):
        if (each.get("name") or "") == name:
            return each.get("port")
    return None


def _unavailable_error(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)
