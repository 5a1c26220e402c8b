"""The Reservation of the capacity that an instance is to be relocated to. Pure."""

from collections.abc import Sequence

from kilonova.api.inference_engine import names
from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, quantity_from_json
from kilonova.instances.builders.engine import Engine
from kilonova.instances.builders.identity import Identity

_MAX_COUNT = 4096
_DURATION = "1h"
"""It is used as soon as it is reserved, and then deleted."""


def build_reservation(
    identity: Identity,
    engine: Engine,
    agent_pod: JsonObject,
    conductor_pod: JsonObject,
    *,
    allocation: int,
    level: str = "",
) -> JsonObject | None:
    """Capacity for all pods of an allocation: agents and conductor in one domain of a level, if
    there is one. None if they request nothing."""
    described = [(agent_pod, count) for count in _split(engine.agents)]
    described.append((conductor_pod, 1))
    pods = [_describe_pods(pod["spec"], count) for pod, count in described]
    requesting = [each for each in pods if each["requests"]]
    if not requesting:
        return None
    spec: JsonObject = {"pods": requesting, "duration": _DURATION}
    if level:
        spec["topologyKey"] = level
    if engine.spec.queue:
        spec["queue"] = engine.spec.queue
    name = names.reservation(identity.name, allocation)
    return {"metadata": identity.build_metadata(name, allocation), "spec": spec}


def _split(count: int) -> list[int]:
    """Numbers that entries of a Reservation may have."""
    return [min(_MAX_COUNT, count - start) for start in range(0, count, _MAX_COUNT)]


def _describe_pods(spec: JsonObject, count: int) -> JsonObject:
    described: JsonObject = {"count": count, "requests": _sum_requests(spec["containers"])}
    if spec.get("nodeSelector"):
        described["nodeSelector"] = spec["nodeSelector"]
    tolerations = [_describe_toleration(each) for each in spec.get("tolerations") or ()]
    if tolerations:
        described["tolerations"] = tolerations
    return described


def _sum_requests(containers: Sequence[JsonObject]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for container in containers:
        resources: JsonObject = container.get("resources") or {}
        requests: JsonObject = dict(resources.get("limits") or {})
        for name, amount in (requests | dict(resources.get("requests") or {})).items():
            quantity = quantity_from_json(amount)
            total[name] = total[name] + quantity if name in total else quantity
    return {name: str(amount) for name, amount in sorted(total.items())}


def _describe_toleration(toleration: JsonObject) -> JsonObject:
    kept = ("key", "operator", "value", "effect")
    return {name: toleration[name] for name in kept if toleration.get(name)}
