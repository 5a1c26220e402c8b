"""What a pod can learn of itself: its fields, and what its containers ask for. Pure."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.quantity import Quantity, parse
from kilonova.local.nodes.process.kubelet.pods import Container, FieldRef, Pod, ResourceFieldRef


class UnknownField(Exception):
    """There is no such field, or it cannot be told."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod's fields depend on beside itself."""

    address: str
    host_address: str
    allocatable: Mapping[str, str]


def field_value(pod: Pod, ref: FieldRef, around: Surroundings) -> str:
    """The text of a field, for a variable."""
    if ref.api_version not in ("", "v1"):
        raise UnknownField(f"unsupported pod version: {ref.api_version}")
    path = ref.field_path
    match path:
        case "spec.nodeName" | "spec.host":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP" | "status.hostIPs":
            return around.host_address
        case "status.podIP" | "status.podIPs":
            return around.address
        case _:
            return metadata_value(pod, path)


def metadata_value(pod: Pod, path: str) -> str:
    """The text of a field of the metadata, for a file."""
    metadata = pod.metadata
    maps = {"metadata.labels": metadata.labels, "metadata.annotations": metadata.annotations}
    owner, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        if owner not in maps:
            raise UnknownField(f"fieldPath {json.dumps(path)} does not support subscript")
        return maps[owner].get(rest[:-2], "")
    if path in maps:
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(maps[path].items()))
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
    }
    if path not in plain:
        raise UnknownField(f"unsupported fieldPath: {path}")
    return plain[path]


def resource_value(
    pod: Pod, container: Container | None, ref: ResourceFieldRef, around: Surroundings
) -> str:
    """An amount, in units of the divisor, rounded up. Without a limit it is what the node has."""
    if ref.container_name:
        named = (each for each in pod.all_containers if each.name == ref.container_name)
        container = next(named, None)
    if container is None:
        raise UnknownField(f"container {ref.container_name} not found")
    table, _, name = ref.resource.partition(".")
    if table not in ("limits", "requests") or not _is_known(name):
        raise UnknownField(f"unsupported container resource : {ref.resource}")
    resources = container.resources
    amounts = resources.limits if table == "limits" else resources.requests
    amount = amount_of(amounts.get(name, "0"))
    if table == "limits" and not amount and name in around.allocatable:
        amount = parse(around.allocatable[name])
    divisor = amount_of(ref.divisor) or parse("1")
    if name == "cpu":
        return str(math.ceil(amount.milli / divisor.milli))
    return str(math.ceil(amount.value / divisor.value))


def amount_of(written: str | int | float) -> Quantity:
    """A quantity, however JSON had it."""
    return parse(str(written))


def _is_known(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
