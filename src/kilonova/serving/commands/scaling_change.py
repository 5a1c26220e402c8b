"""How a number of servers is set. Pure."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService
from kilonova.component.failure import CommandFailed


@dataclass(frozen=True, slots=True)
class ScalingChange:
    """A JSON patch of the service, and what it does."""

    patch: list[JsonObject]
    message: str


def plan_scaling(service: InferenceService, group: str, number: int) -> ScalingChange:
    """Set the number of servers of a group, or with autoscaling their minimum."""
    known = service.metadata
    groups = service.spec.servers
    names = ", ".join(each.name for each in groups)
    if not group and len(groups) > 1:
        raise CommandFailed(f"{known.name} has several groups: choose one by --group: {names}")
    index = next((i for i, each in enumerate(groups) if each.name == (group or each.name)), None)
    if index is None:
        raise CommandFailed(f"{known.name} has no group {group}: it has {names}")
    chosen = groups[index]
    bounds = chosen.autoscaling
    path = f"/spec/servers/{index}"
    field = f"{path}/replicas" if bounds is None else f"{path}/autoscaling/minReplicas"
    if bounds is not None and number > bounds.max_replicas:
        raise CommandFailed(
            f"group {chosen.name} has at most {bounds.max_replicas} servers: raise "
            "autoscaling.maxReplicas first"
        )
    what = "servers" if bounds is None else f"to {bounds.max_replicas} servers, by the load"
    return ScalingChange(
        [
            {"op": "test", "path": f"{path}/name", "value": chosen.name},
            {"op": "add", "path": field, "value": number},
        ],
        f"{known.namespace}/{known.name}: group {chosen.name} has {number} {what}",
    )
