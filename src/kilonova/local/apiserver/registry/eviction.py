"""Pod eviction: a deletion, if the PodDisruptionBudget that covers the pod allows it.

The budget is checked and decremented in one write, so that two evictions never use the same
disruption. The pod is listed in `status.disruptedPods` until it is deleted; after a crash in
between, the disruption controller drops it after two minutes, and no pod is lost.
"""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.errors import ApiError, bad_request, forbidden, too_many_requests
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.registry import object_lifecycle
from kilonova.local.apiserver.registry.context import RegistryContext, not_found_error
from kilonova.local.apiserver.registry.deletion import delete_object
from kilonova.local.apiserver.registry.encoding import decode_entry
from kilonova.local.apiserver.registry.options import DeleteOptions, Preconditions, WriteOptions
from kilonova.local.apiserver.registry.pod_binding import set_pod_condition
from kilonova.local.apiserver.registry.writes import update_without_admission

_CANNOT_EVICT = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED_PODS = 2000
_DISRUPTION_ALLOWED = "DisruptionAllowed"


class _PodChanged(Exception):
    """The pod has changed since the decision."""


async def evict_pod(
    registry: RegistryContext, target: ResourceTarget, eviction: JsonObject, options: WriteOptions
) -> None:
    """Delete a pod if the PodDisruptionBudget that covers it allows a disruption."""
    if nested_object(eviction, "metadata").get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    requested = nested_object(eviction, "deleteOptions")
    if requested.get("dryRun"):
        options.dry_run = True
    entry = registry.newest_entry(target)
    if entry is None:
        raise not_found_error(target)
    pod = entry.decode()
    budget = None if _is_exempt_from_budget(pod) else _find_budget(registry, target, pod)
    version = ""
    if budget is not None:
        if _can_evict_unready(pod, budget):
            version = pod["metadata"]["resourceVersion"]
        else:
            await _consume_disruption(registry, target, budget["metadata"]["name"], options)
    try:
        conditions = await _mark_disruption_target(
            registry, target, _preconditions(requested), version, options
        )
    except _PodChanged:
        assert budget is not None
        raise _budget_not_observed_error(budget) from None
    deletion = DeleteOptions(
        requested.get("gracePeriodSeconds"), requested.get("propagationPolicy"), conditions
    )
    pod_target = ResourceTarget(target.kind, target.namespace, target.name, "")
    await delete_object(registry, pod_target, deletion, options, skip_admission=True)


def _is_exempt_from_budget(pod: JsonObject) -> bool:
    """A pod that is pending, finished or terminating does not count as a disruption."""
    is_inactive = nested_object(pod, "status").get("phase") in ("Pending", "Succeeded", "Failed")
    return is_inactive or bool(pod["metadata"].get("deletionTimestamp"))


def _find_budget(
    registry: RegistryContext, target: ResourceTarget, pod: JsonObject
) -> JsonObject | None:
    kind = registry.served_kinds.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None
    labels = nested_object(pod, "metadata", "labels")
    covering: list[JsonObject] = []
    budgets_target = ResourceTarget(kind, target.namespace, "", "")
    for entry in registry.collection(budgets_target).range_entries(target.namespace):
        budget = decode_entry(
            kind,
            registry.store.newest_entry(registry.collection(budgets_target), entry.key) or entry,
        )
        selector = nested_object(budget, "spec").get("selector")
        if selector is not None and selector_from_object(selector).matches(labels):
            covering.append(budget)
    if len(covering) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support.",
        )
    return covering[0] if covering else None


def _can_evict_unready(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether an unready pod may be evicted without a disruption: enough others are healthy."""
    conditions = nested_objects(pod, "status", "conditions")
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return False
    if nested_object(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = nested_object(budget, "status")
    desired = status.get("desiredHealthy", 0)
    return 0 < desired <= status.get("currentHealthy", 0)


async def _consume_disruption(
    registry: RegistryContext, target: ResourceTarget, name: str, options: WriteOptions
) -> None:
    kind = registry.served_kinds.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None
    now = format_rfc3339(registry.clock.now())

    def consume(budget: JsonObject) -> JsonObject:
        _check_disruptions_allowed(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        if not status["disruptionsAllowed"]:
            _set_disruption_not_allowed(status, now)
        status["disruptedPods"] = {**nested_object(status, "disruptedPods"), target.name: now}
        return budget

    await update_without_admission(
        registry, ResourceTarget(kind, target.namespace, name, ""), options, consume
    )


def _check_disruptions_allowed(budget: JsonObject) -> None:
    name, status = budget["metadata"]["name"], nested_object(budget, "status")
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _budget_not_observed_error(budget)
    allowed = status.get("disruptionsAllowed", 0)
    problem = ""
    if allowed < 0:
        problem = "pdb disruptions allowed is negative"
    elif len(nested_object(status, "disruptedPods")) > _MAX_DISRUPTED_PODS:
        problem = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if problem:
        raise forbidden("policy", "poddisruptionbudget", name, problem)
    if allowed == 0:
        raise _too_many_requests(_no_disruptions_message(name, status), 0)


def _no_disruptions_message(name: str, status: JsonObject) -> str:
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    condition = next(
        (
            each
            for each in nested_objects(status, "conditions")
            if each.get("type") == _DISRUPTION_ALLOWED
            and each.get("status") == "False"
            and each.get("message")
        ),
        None,
    )
    not_allowed = f"The disruption budget {name} does not allow evicting pods currently"
    if condition is not None and condition.get("reason") == "SyncFailed":
        return f"{not_allowed} because it failed sync: {condition['message']}"
    if current <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    return (
        not_allowed
        if condition is None
        else f"{not_allowed} ({condition.get('reason', '')}): {condition['message']}"
    )


def _set_disruption_not_allowed(status: JsonObject, now: str) -> None:
    condition: JsonObject = {
        "type": _DISRUPTION_ALLOWED,
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    before = nested_objects(status, "conditions")
    others = [each for each in before if each.get("type") != _DISRUPTION_ALLOWED]
    status["conditions"] = [*others, condition]


def _budget_not_observed_error(budget: JsonObject) -> ApiError:
    name = budget["metadata"]["name"]
    return _too_many_requests(
        f"The disruption budget {name} is still being processed by the server.", 10
    )


def _too_many_requests(message: str, retry_after: int) -> ApiError:
    cause: JsonObject = {"reason": "DisruptionBudget", "message": message}
    return too_many_requests(_CANNOT_EVICT, retry_after, [cause])


async def _mark_disruption_target(
    registry: RegistryContext,
    target: ResourceTarget,
    preconditions: Preconditions,
    version: str,
    options: WriteOptions,
) -> Preconditions:
    """Set DisruptionTarget on the pod; returns the preconditions for deleting the marked pod."""
    now = format_rfc3339(registry.clock.now())

    def mark_pod(pod: JsonObject) -> JsonObject:
        metadata = pod["metadata"]
        object_lifecycle.check_delete_preconditions(
            target.kind, target.name, preconditions, metadata
        )
        if version and metadata["resourceVersion"] != version:
            raise _PodChanged
        fields = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_pod_condition(pod.setdefault("status", {}), "DisruptionTarget", now, fields)
        return pod

    if options.dry_run:
        return preconditions
    entry = await update_without_admission(registry, target, options, mark_pod)
    if preconditions.resource_version is None:
        return preconditions
    return msgspec.structs.replace(preconditions, resource_version=str(entry.entry.rv))


def _preconditions(delete_options: JsonObject) -> Preconditions:
    requested = nested_object(delete_options, "preconditions")
    return Preconditions(requested.get("uid"), requested.get("resourceVersion"))
