"""What only pods have: being bound to a node."""

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.errors import ApiError, Problem, bad_request, conflict
from kilonova.local.kinds.walk import part
from kilonova.local.registry.core import Registry
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.writes import edit
from kilonova.local.routes import Target


async def bind(
    registry: Registry, target: Target, binding: JsonObject, options: WriteOptions
) -> None:
    """Put a pod on a node: once, and only if it is still the pod that was meant."""
    wanted = part(binding, "metadata")
    if wanted.get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    destination = part(binding, "target")
    node = destination.get("name", "")
    problems = _target_problems(destination)
    if problems:
        raise ApiError(500, "", "; ".join(str(problem) for problem in problems))
    now = rfc3339(registry.clock.now())

    def make(pod: JsonObject) -> JsonObject:
        _check_bindable(target.name, pod, wanted)
        pod["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            if wanted.get(field):
                pod["metadata"][field] = {**part(pod, "metadata", field), **wanted[field]}
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        set_condition(status, "PodScheduled", now)
        return pod

    await edit(registry, target, options, make)


def _target_problems(destination: JsonObject) -> list[Problem]:
    kind = destination.get("kind", "")
    if kind not in ("", "Node"):
        message = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        return [Problem("target.kind", "FieldValueNotSupported", message)]
    if not destination.get("name"):
        return [Problem("target.name", "FieldValueRequired", "Required value")]
    return []


def _check_bindable(name: str, pod: JsonObject, wanted: JsonObject) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata[field]:
            raise conflict(
                "",
                "pods",
                name,
                f"Precondition failed: {label} in precondition: {wanted[field]}, "
                f"{label} in object meta: {metadata[field]}",
            )
    reason = ""
    if metadata.get("deletionTimestamp"):
        reason = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        reason = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        reason = f"pod {name} has non-empty .spec.schedulingGates"
    if reason:
        raise conflict("", "pods/binding", name, reason)


def set_condition(
    status: JsonObject, kind: str, now: str, told: dict[str, str] | None = None
) -> None:
    """Say that something holds of a pod, from now on."""
    conditions: list[JsonObject] = status.get("conditions") or []
    kept = [condition for condition in conditions if condition.get("type") != kind]
    condition: JsonObject = {"type": kind, "status": "True", "lastProbeTime": None}
    status["conditions"] = [*kept, {**condition, "lastTransitionTime": now, **(told or {})}]
