"""The status of a quota, from the objects of its namespace. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.local.admission.amounts import Amounts, add, amounts
from kilonova.local.admission.usage import NONE, in_scope, matching_names, resource_of, usage
from kilonova.local.kinds.walk import part


def resources_needed(hard: Iterable[str]) -> set[str]:
    """The resources whose objects have to be looked at."""
    return {resource_of(name) for name in hard} - {""}


def counted_status(
    quota: JsonObject, found: Mapping[str, Iterable[JsonObject]], now: datetime
) -> JsonObject:
    """What the quota says when everything in `found`, by resource, is counted."""
    spec = part(quota, "spec")
    hard = amounts(part(spec, "hard"))
    used: Amounts = {}
    for resource, objects in found.items():
        names = matching_names(resource, hard)
        total = dict.fromkeys(names, NONE)
        for obj in objects:
            if in_scope(resource, obj, spec):
                own = usage(resource, obj, now)
                add(total, {name: own[name] for name in names if name in own})
        used |= total
    return {"hard": _written(hard), "used": _written(used)}


def status_patch(quota: JsonObject, wanted: JsonObject) -> JsonObject | None:
    """The change of the status; None where it says so already."""
    present = part(quota, "status")
    patch: JsonObject = {}
    for field in ("hard", "used"):
        before, after = amounts(part(present, field)), amounts(wanted[field])
        if before != after or field not in present:
            gone = dict.fromkeys(before.keys() - after.keys())
            patch[field] = {**wanted[field], **gone}
    return patch or None


def _written(found: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in found.items()}
