"""`/binding` of pods."""

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.errors import ApiError, FieldError, bad_request, conflict
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.registry.writes import update_without_admission


async def bind_pod(
    registry: RegistryContext, target: ResourceTarget, binding: JsonObject, options: WriteOptions
) -> None:
    """Bind a pod to a node: once, and only if uid and resourceVersion match."""
    preconditions = nested_object(binding, "metadata")
    if preconditions.get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    destination = nested_object(binding, "target")
    node = destination.get("name", "")
    problems = _validate_binding_target(destination)
    if problems:
        raise ApiError(500, "", "; ".join(str(problem) for problem in problems))
    now = format_rfc3339(registry.clock.now())

    def set_node_name(pod: JsonObject) -> JsonObject:
        _check_bindable(target.name, pod, preconditions)
        pod["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            if preconditions.get(field):
                pod["metadata"][field] = {
                    **nested_object(pod, "metadata", field),
                    **preconditions[field],
                }
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        set_pod_condition(status, "PodScheduled", now)
        return pod

    await update_without_admission(registry, target, options, set_node_name)


def _validate_binding_target(destination: JsonObject) -> list[FieldError]:
    kind = destination.get("kind", "")
    if kind not in ("", "Node"):
        message = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        return [FieldError("target.kind", "FieldValueNotSupported", message)]
    if not destination.get("name"):
        return [FieldError("target.name", "FieldValueRequired", "Required value")]
    return []


def _check_bindable(name: str, pod: JsonObject, preconditions: JsonObject) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if preconditions.get(field) and preconditions[field] != metadata[field]:
            raise conflict(
                "",
                "pods",
                name,
                f"Precondition failed: {label} in precondition: {preconditions[field]}, "
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


def set_pod_condition(
    status: JsonObject, kind: str, now: str, fields: dict[str, str] | None = None
) -> None:
    """Set a condition of a pod to true."""
    conditions: list[JsonObject] = status.get("conditions") or []
    others = [condition for condition in conditions if condition.get("type") != kind]
    condition: JsonObject = {"type": kind, "status": "True", "lastProbeTime": None}
    status["conditions"] = [*others, {**condition, "lastTransitionTime": now, **(fields or {})}]
