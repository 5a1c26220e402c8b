"""Rules for what a ResourceQuota may count, and for which objects."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.quantity import QuantityError
from kilonova.api.quantity import from_json as quantity
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.walk import objects, part, strings
from kilonova.local.names import qualified_name

_COUNTED = {
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
}
_COMPUTE = {
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
}
_STORAGE = {
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "requests.storage",
}
_STANDARD = _COUNTED | _COMPUTE | _STORAGE
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")

_EXISTING_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_OF_PODS = {"pods"} | _COMPUTE
_COUNTS_OF_SCOPE = {
    **dict.fromkeys((*_EXISTING_SCOPES, "PriorityClass"), _OF_PODS),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def quota_problems(spec: JsonObject) -> Iterator[Problem]:
    """The spec on its own."""
    hard = part(spec, "hard")
    for name, amount in hard.items():
        yield from _amount_problems(name, amount, f"spec.hard[{name}]")
    scopes = strings(spec, "scopes")
    yield from _scope_problems(scopes, hard, "spec.scopes", "spec.scopes", scopes, scopes)
    if selector := spec.get("scopeSelector"):
        path = "spec.scopeSelector.matchExpressions"
        wanted = objects(selector, "matchExpressions")
        for requirement in wanted:
            yield from _requirement_problems(requirement, path)
        names = [each.get("scopeName", "") for each in wanted]
        shown = _as_go_shows(wanted)
        yield from _scope_problems(names, hard, path, f"{path}.scopeName", shown, scopes)


def quota_change_problems(new: JsonObject, old: JsonObject) -> Iterator[Problem]:
    """Which objects a quota is about never changes."""
    scopes = strings(new, "spec", "scopes")
    if set(scopes) != set(strings(old, "spec", "scopes")):
        yield invalid_value("spec.scopes", scopes, "field is immutable")


def _amount_problems(name: str, value: Any, path: str) -> Iterator[Problem]:
    standard = name in _STANDARD or name.startswith(_HUGE_PAGES)
    if trouble := qualified_name(name):
        yield invalid_value(path, name, trouble)
    elif "/" not in name and not standard and name != "storage":
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
    if "/" not in name and not standard:
        yield invalid_value(path, name, "must be a standard resource for quota")
    try:
        amount = quantity(value)
    except QuantityError:
        return
    if amount.nano < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if not amount.is_integer and (name in _COUNTED or _is_extended(name)):
        yield invalid_value(path, value, "must be an integer")


def _is_extended(name: str) -> bool:
    """A resource that somebody's device plug-in brings: whole pieces."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _scope_problems(
    scopes: list[str], hard: JsonObject, path: str, name_path: str, shown: Any, listed: list[str]
) -> Iterator[Problem]:
    for scope in scopes:
        if scope not in _COUNTS_OF_SCOPE:
            yield invalid_value(
                name_path, shown if path == name_path else scope, "unsupported scope"
            )
            continue
        for name in sorted(hard):
            standard = name in _STANDARD or name.startswith(_HUGE_PAGES)
            if standard and name not in _COUNTS_OF_SCOPE[scope]:
                yield invalid_value(path, shown, "unsupported scope applied to resource")
    for pair in _OPPOSITES:
        if pair <= set(scopes):
            yield invalid_value(path, listed or None, "conflicting scopes")


def _as_go_shows(requirements: list[JsonObject]) -> JsonObject:
    """The selector with the names of Go's fields, which Kubernetes' refusals have."""
    return {
        "MatchExpressions": [
            {
                "ScopeName": each.get("scopeName", ""),
                "Operator": each.get("operator", ""),
                "Values": each.get("values"),
            }
            for each in requirements
        ]
    }


def _requirement_problems(requirement: JsonObject, path: str) -> Iterator[Problem]:
    operator, values = requirement.get("operator", ""), strings(requirement, "values")
    if requirement.get("scopeName") in _EXISTING_SCOPES and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            detail = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            yield invalid_value(f"{path}.values", values, detail)
    else:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
