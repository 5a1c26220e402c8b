"""Validation of ResourceQuotas: counted resources and scopes."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.quantity import QuantityError
from kilonova.api.quantity import quantity_from_json as quantity
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.names import qualified_name_error
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings

_COUNTED_RESOURCES = {
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
_STANDARD_RESOURCES = _COUNTED_RESOURCES | _COMPUTE | _STORAGE
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")

_EXISTING_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_POD_RESOURCES = {"pods"} | _COMPUTE
_RESOURCES_BY_SCOPE = {
    **dict.fromkeys((*_EXISTING_SCOPES, "PriorityClass"), _POD_RESOURCES),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
_CONFLICTING_SCOPES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_quota_spec(spec: JsonObject) -> Iterator[FieldError]:
    """Validate the spec of a quota."""
    hard = nested_object(spec, "hard")
    for name, amount in hard.items():
        yield from _validate_quantity(name, amount, f"spec.hard[{name}]")
    scopes = nested_strings(spec, "scopes")
    yield from _validate_scopes(scopes, hard, "spec.scopes", "spec.scopes", scopes, scopes)
    if selector := spec.get("scopeSelector"):
        path = "spec.scopeSelector.matchExpressions"
        requirements = nested_objects(selector, "matchExpressions")
        for requirement in requirements:
            yield from _validate_requirement(requirement, path)
        names = [each.get("scopeName", "") for each in requirements]
        formatted = _go_format(requirements)
        yield from _validate_scopes(names, hard, path, f"{path}.scopeName", formatted, scopes)


def validate_quota_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """The scopes of a quota are immutable."""
    scopes = nested_strings(new, "spec", "scopes")
    if set(scopes) != set(nested_strings(old, "spec", "scopes")):
        yield invalid_value("spec.scopes", scopes, "field is immutable")


def _validate_quantity(name: str, value: Any, path: str) -> Iterator[FieldError]:
    standard = name in _STANDARD_RESOURCES or name.startswith(_HUGE_PAGES)
    if error := qualified_name_error(name):
        yield invalid_value(path, name, error)
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
    if not amount.is_integer and (name in _COUNTED_RESOURCES or _is_extended_resource(name)):
        yield invalid_value(path, value, "must be an integer")


def _is_extended_resource(name: str) -> bool:
    """An extended resource, as device plugins advertise it: integer amounts."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _validate_scopes(
    scopes: list[str],
    hard: JsonObject,
    path: str,
    name_path: str,
    shown_value: Any,
    scope_names: list[str],
) -> Iterator[FieldError]:
    for scope in scopes:
        if scope not in _RESOURCES_BY_SCOPE:
            yield invalid_value(
                name_path, shown_value if path == name_path else scope, "unsupported scope"
            )
            continue
        for name in sorted(hard):
            standard = name in _STANDARD_RESOURCES or name.startswith(_HUGE_PAGES)
            if standard and name not in _RESOURCES_BY_SCOPE[scope]:
                yield invalid_value(path, shown_value, "unsupported scope applied to resource")
    for pair in _CONFLICTING_SCOPES:
        if pair <= set(scopes):
            yield invalid_value(path, scope_names or None, "conflicting scopes")


def _go_format(requirements: list[JsonObject]) -> JsonObject:
    """The selector with Go's field names, as in Kubernetes' messages."""
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


def _validate_requirement(requirement: JsonObject, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), nested_strings(requirement, "values")
    if requirement.get("scopeName") in _EXISTING_SCOPES and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            detail = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield required_value(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            yield invalid_value(f"{path}.values", values, detail)
    else:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
