"""Evicting a pod: its deletion, if the disruption budget that covers it allows one more.

The budget is looked at and spent in one write, so that two evictions never spend the same. The
pod is listed in its status until it is seen to go; a crash in between costs the budget two
minutes, and nobody a pod.
"""

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.errors import ApiError, bad_request, forbidden, too_many_requests
from kilonova.local.kinds.walk import objects, part
from kilonova.local.registry import lifecycle
from kilonova.local.registry.core import Registry, absent
from kilonova.local.registry.deletes import DeleteOptions, delete
from kilonova.local.registry.objects import shown
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.pods import set_condition
from kilonova.local.registry.writes import edit
from kilonova.local.routes import Target
from kilonova.local.selectors import label_selector

_CANNOT_EVICT = "Cannot evict pod as it would violate the pod's disruption budget."
_MOST_DISRUPTED = 2000
_DISRUPTION_ALLOWED = "DisruptionAllowed"


class _Moved(Exception):
    """The pod is not what the decision rested on any more."""


async def evict(
    registry: Registry, target: Target, eviction: JsonObject, options: WriteOptions
) -> None:
    """Delete a pod if the disruption budget that covers it allows one disruption more."""
    if part(eviction, "metadata").get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = part(eviction, "deleteOptions")
    if wanted.get("dryRun"):
        options.dry_run = True
    entry = registry.newest(target)
    if entry is None:
        raise absent(target)
    pod = entry.decode()
    budget = None if _needs_no_budget(pod) else _budget_of(registry, target, pod)
    version = ""
    if budget is not None:
        if _harms_nobody(pod, budget):
            version = pod["metadata"]["resourceVersion"]
        else:
            await _spend(registry, target, budget["metadata"]["name"], options)
    try:
        conditions = await _mark(registry, target, part(wanted, "preconditions"), version, options)
    except _Moved:
        assert budget is not None
        raise _being_processed(budget) from None
    deletion = DeleteOptions(
        wanted.get("gracePeriodSeconds"), wanted.get("propagationPolicy"), conditions
    )
    whole = Target(target.kind, target.namespace, target.name, "")
    await delete(registry, whole, deletion, options, admitted=True)


def _needs_no_budget(pod: JsonObject) -> bool:
    """A pod that does not run yet, runs no more, or goes already disrupts nothing."""
    over = part(pod, "status").get("phase") in ("Pending", "Succeeded", "Failed")
    return over or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(registry: Registry, target: Target, pod: JsonObject) -> JsonObject | None:
    kind = registry.catalog.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None
    labels = part(pod, "metadata", "labels")
    covering: list[JsonObject] = []
    whole = Target(kind, target.namespace, "", "")
    for entry in registry.collection(whole).between(target.namespace):
        budget = shown(kind, registry.store.newest(registry.collection(whole), entry.key) or entry)
        selector = part(budget, "spec").get("selector")
        if selector is not None and label_selector(selector).matches(labels):
            covering.append(budget)
    if len(covering) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support.",
        )
    return covering[0] if covering else None


def _harms_nobody(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether an unready pod may go without spending: the healthy ones are enough without it."""
    conditions = objects(pod, "status", "conditions")
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return False
    if part(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = part(budget, "status")
    desired = status.get("desiredHealthy", 0)
    return 0 < desired <= status.get("currentHealthy", 0)


async def _spend(registry: Registry, target: Target, name: str, options: WriteOptions) -> None:
    kind = registry.catalog.find("policy", "v1", "poddisruptionbudgets")
    assert kind is not None
    now = rfc3339(registry.clock.now())

    def make(budget: JsonObject) -> JsonObject:
        _check(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        if not status["disruptionsAllowed"]:
            _tell_exhausted(status, now)
        status["disruptedPods"] = {**part(status, "disruptedPods"), target.name: now}
        return budget

    await edit(registry, Target(kind, target.namespace, name, ""), options, make)


def _check(budget: JsonObject) -> None:
    name, status = budget["metadata"]["name"], part(budget, "status")
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _being_processed(budget)
    allowed = status.get("disruptionsAllowed", 0)
    problem = ""
    if allowed < 0:
        problem = "pdb disruptions allowed is negative"
    elif len(part(status, "disruptedPods")) > _MOST_DISRUPTED:
        problem = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if problem:
        raise forbidden("policy", "poddisruptionbudget", name, problem)
    if allowed == 0:
        raise _exhausted(_why_none(name, status), 0)


def _why_none(name: str, status: JsonObject) -> str:
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    told = next(
        (
            each
            for each in objects(status, "conditions")
            if each.get("type") == _DISRUPTION_ALLOWED
            and each.get("status") == "False"
            and each.get("message")
        ),
        None,
    )
    nothing = f"The disruption budget {name} does not allow evicting pods currently"
    if told is not None and told.get("reason") == "SyncFailed":
        return f"{nothing} because it failed sync: {told['message']}"
    if current <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    return nothing if told is None else f"{nothing} ({told.get('reason', '')}): {told['message']}"


def _tell_exhausted(status: JsonObject, now: str) -> None:
    told: JsonObject = {
        "type": _DISRUPTION_ALLOWED,
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    before = objects(status, "conditions")
    kept = [each for each in before if each.get("type") != _DISRUPTION_ALLOWED]
    status["conditions"] = [*kept, told]


def _being_processed(budget: JsonObject) -> ApiError:
    name = budget["metadata"]["name"]
    return _exhausted(f"The disruption budget {name} is still being processed by the server.", 10)


def _exhausted(message: str, retry_after: int) -> ApiError:
    cause: JsonObject = {"reason": "DisruptionBudget", "message": message}
    return too_many_requests(_CANNOT_EVICT, retry_after, [cause])


async def _mark(
    registry: Registry,
    target: Target,
    preconditions: JsonObject,
    version: str,
    options: WriteOptions,
) -> JsonObject:
    """Say on the pod why it goes; the conditions under which the marked pod may be deleted."""
    now = rfc3339(registry.clock.now())

    def make(pod: JsonObject) -> JsonObject:
        metadata = pod["metadata"]
        lifecycle.check_delete_preconditions(target.kind, target.name, preconditions, metadata)
        if version and metadata["resourceVersion"] != version:
            raise _Moved
        told = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        set_condition(pod.setdefault("status", {}), "DisruptionTarget", now, told)
        return pod

    if options.dry_run:
        return preconditions
    marked = await edit(registry, target, options, make)
    if "resourceVersion" not in preconditions:
        return preconditions
    return {**preconditions, "resourceVersion": str(marked.entry.rv)}
