"""QoS classes of pods. Pure."""

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import quantity_from_json as quantity
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, from requests and limits of CPU and memory."""
    holders = [spec] if spec.get("resources") else []
    holders = holders or [
        *nested_objects(spec, "containers"),
        *nested_objects(spec, "initContainers"),
    ]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for container in holders:
        resources = nested_object(container, "resources")
        _add_qos_resources(requests, resources.get("requests"))
        found = _add_qos_resources(limits, resources.get("limits"))
        guaranteed = guaranteed and found == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add_qos_resources(total: dict[str, Quantity], amounts: JsonObject | None) -> int:
    """Add CPU and memory amounts; returns how many of the two were set."""
    found = 0
    for name in ("cpu", "memory"):
        value = (amounts or {}).get(name)
        if value is None:
            continue
        try:
            amount = quantity(value)
        except QuantityError:
            continue
        if amount.nano > 0:
            found += 1
            total[name] = total[name] + amount if name in total else amount
    return found
