"""The downward API: fields of a pod, and resources of its containers. Pure."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.quantity import Quantity, parse_quantity
from kilonova.local.processnode.kubelet.objects import (
    Container,
    ObjectFieldSelector,
    Pod,
    ResourceFieldSelector,
)


class UnsupportedField(Exception):
    """The field does not exist, or is not supported."""


@dataclass(frozen=True, slots=True)
class FieldContext:
    """Values of pod fields that are not in the Pod object."""

    address: str
    host_address: str
    allocatable: Mapping[str, str]


def resolve_field(pod: Pod, ref: ObjectFieldSelector, context: FieldContext) -> str:
    """The value of a field for an environment variable."""
    if ref.api_version not in ("", "v1"):
        raise UnsupportedField(f"unsupported pod version: {ref.api_version}")
    path = ref.field_path
    match path:
        case "spec.nodeName" | "spec.host":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP" | "status.hostIPs":
            return context.host_address
        case "status.podIP" | "status.podIPs":
            return context.address
        case _:
            return resolve_metadata_field(pod, path)


def resolve_metadata_field(pod: Pod, path: str) -> str:
    """The value of a metadata field for a file."""
    metadata = pod.metadata
    maps = {"metadata.labels": metadata.labels, "metadata.annotations": metadata.annotations}
    owner, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        if owner not in maps:
            raise UnsupportedField(f"fieldPath {json.dumps(path)} does not support subscript")
        return maps[owner].get(rest[:-2], "")
    if path in maps:
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(maps[path].items()))
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
    }
    if path not in plain:
        raise UnsupportedField(f"unsupported fieldPath: {path}")
    return plain[path]


def resolve_resource(
    pod: Pod, container: Container | None, ref: ResourceFieldSelector, context: FieldContext
) -> str:
    """A resource amount in units of the divisor, rounded up. Without a limit, the node's
    allocatable.
    """
    if ref.container_name:
        named = (each for each in pod.all_containers if each.name == ref.container_name)
        container = next(named, None)
    if container is None:
        raise UnsupportedField(f"container {ref.container_name} not found")
    table, _, name = ref.resource.partition(".")
    if table not in ("limits", "requests") or not _is_supported_resource(name):
        raise UnsupportedField(f"unsupported container resource : {ref.resource}")
    resources = container.resources
    amounts = resources.limits if table == "limits" else resources.requests
    amount = parse_amount(amounts.get(name, "0"))
    if table == "limits" and not amount and name in context.allocatable:
        amount = parse_quantity(context.allocatable[name])
    divisor = parse_amount(ref.divisor) or parse_quantity("1")
    if name == "cpu":
        return str(math.ceil(amount.milli / divisor.milli))
    return str(math.ceil(amount.value / divisor.value))


def parse_amount(written: str | int | float) -> Quantity:
    """A quantity from a JSON string or number."""
    return parse_quantity(str(written))


def _is_supported_resource(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
