"""What only pods have: being bound to a node, and being evicted from it."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    ApiError,
    Problem,
    bad_request,
    conflict,
    too_many_requests,
)
from kilonova.local.kinds.walk import part
from kilonova.local.registry.core import Registry
from kilonova.local.registry.deletes import DeleteOptions, delete
from kilonova.local.registry.objects import shown
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.writes import edit
from kilonova.local.routes import Target
from kilonova.local.selectors import label_selector
from kilonova.local.times import rfc3339

_CANNOT_EVICT = "Cannot evict pod as it would violate the pod's disruption budget."


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
        _set_condition(status, "PodScheduled", now)
        return pod

    await edit(registry, target, options, make)


async def evict(
    registry: Registry, target: Target, eviction: JsonObject, options: WriteOptions
) -> None:
    """Delete a pod if the disruption budget that covers it allows one disruption more."""
    name = part(eviction, "metadata").get("name", "")
    if name != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    entry = registry.newest(target)
    wanted = part(eviction, "deleteOptions")
    if wanted.get("dryRun"):
        options.dry_run = True
    deletion = DeleteOptions(
        wanted.get("gracePeriodSeconds"),
        wanted.get("propagationPolicy"),
        wanted.get("preconditions") or {},
    )
    if entry is not None:
        pod = entry.decode()
        finished = pod.get("status", {}).get("phase") in ("Pending", "Succeeded", "Failed")
        if not finished and not pod["metadata"].get("deletionTimestamp"):
            await _spend_budget(registry, target, pod, options)
            await _mark_disrupted(registry, target, options)
    await delete(
        registry, Target(target.kind, target.namespace, target.name, ""), deletion, options
    )


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


def _set_condition(
    status: JsonObject, kind: str, now: str, told: dict[str, str] | None = None
) -> None:
    conditions: list[JsonObject] = status.get("conditions") or []
    kept = [condition for condition in conditions if condition.get("type") != kind]
    condition: JsonObject = {"type": kind, "status": "True", "lastProbeTime": None}
    status["conditions"] = [*kept, {**condition, "lastTransitionTime": now, **(told or {})}]


async def _mark_disrupted(registry: Registry, target: Target, options: WriteOptions) -> None:
    now = rfc3339(registry.clock.now())

    def make(pod: JsonObject) -> JsonObject:
        told = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        _set_condition(pod.setdefault("status", {}), "DisruptionTarget", now, told)
        return pod

    await edit(registry, target, options, make)


async def _spend_budget(
    registry: Registry, target: Target, pod: JsonObject, options: WriteOptions
) -> None:
    budgets = registry.catalog.find("policy", "v1", "poddisruptionbudgets")
    assert budgets is not None
    covering = _budgets_of(registry, Target(budgets, target.namespace, "", ""), pod)
    if len(covering) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support.",
        )
    for name in covering:

        def make(budget: JsonObject) -> JsonObject:
            _check_budget(budget)
            status = budget["status"]
            status["disruptionsAllowed"] -= 1
            status.setdefault("disruptedPods", {})[target.name] = rfc3339(registry.clock.now())
            return budget

        await edit(registry, Target(budgets, target.namespace, name, ""), options, make)


def _budgets_of(registry: Registry, whole: Target, pod: JsonObject) -> list[str]:
    labels = part(pod, "metadata", "labels")
    names: list[str] = []
    for entry in registry.collection(whole).between(whole.namespace):
        budget = shown(whole.kind, entry)
        selector = budget.get("spec", {}).get("selector")
        if selector is not None and label_selector(selector).matches(labels):
            names.append(budget["metadata"]["name"])
    return names


def _check_budget(budget: JsonObject) -> None:
    name = budget["metadata"]["name"]
    status = part(budget, "status")
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _exhausted(
            f"The disruption budget {name} is still being processed by the server.", 10
        )
    if status.get("disruptionsAllowed", 0) <= 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        reason = (
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
            if current <= desired
            else f"The disruption budget {name} does not allow evicting pods currently"
        )
        raise _exhausted(reason, 0)


def _exhausted(message: str, retry_after: int) -> ApiError:
    cause: JsonObject = {"reason": "DisruptionBudget", "message": message}
    return too_many_requests(_CANNOT_EVICT, retry_after, [cause])
