"""Does a live object already have the desired fields, and if not, what is the minimal patch?

A desired object is partial: it has the fields its writer manages, and omits the others (defaults
set by the server, fields of other writers). Pure functions on plain JSON. To remove a field or a
list element that an earlier write set, use server-side apply (`Client.apply`): only the server
knows which manager owns which field.
"""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError, parse_quantity


def needs_patch(live: JsonObject, desired: JsonObject) -> bool:
    """Whether writing `desired` would change `live`.

    A null requires the field to be absent. An empty map, list, string or false matches an absent
    field: the server drops such values. Quantities are compared by value, since the server rewrites
    them (`1024Mi` becomes `1Gi`). Lists with known keys (containers, conditions, owner references
    …) are compared by key and may have more elements; in other lists every element must match at
    its index.
    """
    return _diff_value(live, desired, "") is not _UNCHANGED


def minimal_merge_patch(live: JsonObject, desired: JsonObject) -> JsonObject | None:
    """The JSON merge patch that brings `live` to `desired`; None if nothing differs.

    A merge patch replaces lists whole. Where a list may have elements of other writers, the patch
    includes them, and carries the resourceVersion it was computed from, so that an element added
    meanwhile causes a conflict and is not lost.
    """
    change = _diff_value(live, desired, "")
    if change is _UNCHANGED:
        return None
    patch = cast("JsonObject", change)
    version = cast("JsonObject", live.get("metadata") or {}).get("resourceVersion")
    if version and _replaces_shared_list(patch):
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}
    return patch


_UNCHANGED = object()

# Lists whose elements have a merge key, by field name.
_LIST_MAP_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_LIST_SETS = frozenset({"finalizers"})
_QUANTITY_MAPS = frozenset(
    {"requests", "limits", "capacity", "allocatable", "hard", "used", "overhead"}
)
_METRIC_QUANTITIES = frozenset({"averageValue", "value"})
"""Fields of what an autoscaler aims at, its `target`."""


def _diff_value(live: Any, desired: Any, field: str) -> Any:
    """The value for the merge patch at this path, or `_UNCHANGED` if nothing differs."""
    if desired is None:
        return _UNCHANGED if live is None else None
    if isinstance(desired, dict):
        return _diff_object(live, cast("JsonObject", desired), field)
    if isinstance(desired, list):
        return _diff_list(live, cast("list[Any]", desired), field)
    if live is None and (desired is False or desired == ""):
        return _UNCHANGED
    return _UNCHANGED if _is_equal_scalar(live, desired) else desired


def _diff_object(live: Any, desired: JsonObject, field: str) -> Any:
    known = cast("JsonObject", live) if isinstance(live, dict) else {}
    changes: JsonObject = {}
    for name, wanted in desired.items():
        found = known.get(name)
        if _is_quantity_field(field, name) and _is_equal_quantity(found, wanted):
            continue
        change = _diff_value(found, wanted, name)
        if change is not _UNCHANGED:
            changes[name] = change
    if isinstance(live, dict) or (live is None and not changes):
        return changes or _UNCHANGED
    # A new object is written whole: its false and empty fields may be required.
    return _drop_nulls(desired)


def _diff_list(live: Any, desired: list[Any], field: str) -> Any:
    if live is None and not desired:
        return _UNCHANGED
    if isinstance(live, tuple):
        live = list(cast("tuple[Any, ...]", live))  # of a Struct
    present = cast("list[Any]", live) if isinstance(live, list) else []
    if field in _LIST_SETS:
        wanted = [_drop_nulls(item) for item in desired]
        missing = [item for item in wanted if item not in present]
        return present + missing if missing else _UNCHANGED
    desired_by_key = _index_by_key(desired, field)
    present_by_key = _index_by_key(present, field)
    if desired_by_key is None or present_by_key is None:
        same = isinstance(live, list) and len(present) == len(desired)
        if same and all(map(_is_satisfied, present, desired)):
            return _UNCHANGED
        return _drop_nulls(desired)
    if all(
        key in present_by_key and _is_satisfied(present_by_key[key], item)
        for key, item in desired_by_key.items()
    ):
        return _UNCHANGED
    return [
        _merge_element(item, desired_by_key.get(key)) for key, item in present_by_key.items()
    ] + [_drop_nulls(item) for key, item in desired_by_key.items() if key not in present_by_key]


def _is_satisfied(live: Any, desired: Any) -> bool:
    return _diff_value(live, desired, "") is _UNCHANGED


def _index_by_key(items: list[Any], field: str) -> dict[tuple[Any, ...], Any] | None:
    """The elements by merge key; None where the list has no key."""
    names = _LIST_MAP_KEYS.get(field)
    result: dict[tuple[Any, ...], Any] = {}
    for item in items:
        if not isinstance(item, dict):
            return None
        element = cast("JsonObject", item)
        if field == "ports":
            number = "containerPort" if "containerPort" in element else "port"
            key = (element.get(number), element.get("protocol") or "TCP")
        elif names:
            key = tuple(element.get(name) for name in names)
        else:
            return None
        if not all(isinstance(part, (str, int)) for part in key) or key in result:
            return None
        result[key] = element
    return result if names or field == "ports" else None


def _merge_element(live: Any, desired: Any) -> Any:
    """A list element with the desired fields merged into it."""
    if desired is None:
        return live
    change = _diff_value(live, desired, "")
    if change is _UNCHANGED:
        return live
    return _merge_into(cast("JsonObject", live), cast("JsonObject", change))


def _merge_into(live: JsonObject, change: JsonObject) -> JsonObject:
    result = dict(live)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = _merge_into(result[name], cast("JsonObject", value))
        else:
            result[name] = _drop_nulls(value)
    return result


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        return {name: _drop_nulls(item) for name, item in items if item is not None}
    if isinstance(value, list):
        return [_drop_nulls(item) for item in cast("list[Any]", value)]
    return value


def _replaces_shared_list(patch: Any, field: str = "") -> bool:
    if isinstance(patch, dict):
        items = cast("JsonObject", patch).items()
        return any(_replaces_shared_list(value, name) for name, value in items)
    return isinstance(patch, list) and (
        field in _LIST_MAP_KEYS or field in _LIST_SETS or field == "ports"
    )


def _is_equal_scalar(live: Any, desired: Any) -> bool:
    # In Python true equals 1; in JSON it does not.
    return live == desired and isinstance(live, bool) == isinstance(desired, bool)


def _is_quantity_field(parent: str, name: str) -> bool:
    return parent in _QUANTITY_MAPS or (parent == "target" and name in _METRIC_QUANTITIES)


def _is_equal_quantity(live: Any, desired: Any) -> bool:
    value = _parse_quantity(desired)
    return value is not None and value == _parse_quantity(live)


def _parse_quantity(value: Any) -> Quantity | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return None
