"""The status of a quota, from the objects of its namespace. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.pods.resources import add_amounts
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.quota.evaluators import (
    NO_OBJECTS,
    matches_scopes,
    matching_names,
    object_usage,
    resource_for_name,
)
from kilonova.local.quota.resource_lists import ResourceList, parse_resource_list


def select_resources(hard: Iterable[str]) -> set[str]:
    """The resources whose objects are needed."""
    return {resource_for_name(name) for name in hard} - {""}


def compute_status(
    quota: JsonObject, objects_by_resource: Mapping[str, Iterable[JsonObject]], now: datetime
) -> JsonObject:
    """The status of the quota: the usage of all objects that it matches, by resource."""
    spec = nested_object(quota, "spec")
    hard = parse_resource_list(nested_object(spec, "hard"))
    used: ResourceList = {}
    for resource, objects in objects_by_resource.items():
        names = matching_names(resource, hard)
        total = dict.fromkeys(names, NO_OBJECTS)
        for obj in objects:
            if matches_scopes(resource, obj, spec):
                own = object_usage(resource, obj, now)
                add_amounts(total, {name: own[name] for name in names if name in own})
        used |= total
    return {"hard": _format_amounts(hard), "used": _format_amounts(used)}


def build_status_patch(quota: JsonObject, desired: JsonObject) -> JsonObject | None:
    """The patch of the status; None if it is up to date."""
    present = nested_object(quota, "status")
    patch: JsonObject = {}
    for field in ("hard", "used"):
        before, after = (
            parse_resource_list(nested_object(present, field)),
            parse_resource_list(desired[field]),
        )
        if before != after or field not in present:
            removed = dict.fromkeys(before.keys() - after.keys())
            patch[field] = {**desired[field], **removed}
    return patch or None


def _format_amounts(quantities: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in quantities.items()}
