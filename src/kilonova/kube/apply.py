"""Does what a controller wants already hold, and if not, what is the least to write?

A desired object is partial: it names the fields its writer cares for, and says nothing of the
others (defaults filled in by the server, fields of other writers). Pure functions on plain
JSON. To take back a field or a list element that one's earlier write set, use server-side
apply (`Client.apply`): only the server knows who set what.
"""

import re
from decimal import Decimal
from typing import Any, cast

from kilonova.api.json import JsonObject


def differs(live: JsonObject, desired: JsonObject) -> bool:
    """Whether a write of `desired` would change anything in `live`.

    A null wants a field to be absent. An empty map, list, text or false holds where there is
    nothing: the server drops such values. Quantities are compared by value, since the server
    rewrites them (`1024Mi` becomes `1Gi`). Lists with known keys (containers, conditions,
    owner references …) are compared by key and may hold more than was asked for; in others
    every element must hold at its place.
    """
    return _change(live, desired, "") is not _HOLDS


def narrowest_patch(live: JsonObject, desired: JsonObject) -> JsonObject | None:
    """The JSON merge patch that makes `desired` hold in `live`; None if it already does.

    A merge patch replaces lists whole. Where the list may hold elements of other writers the
    patch keeps them, and carries the resourceVersion it was computed from, so that an element
    added meanwhile is answered with a conflict and not lost.
    """
    change = _change(live, desired, "")
    if change is _HOLDS:
        return None
    patch = cast("JsonObject", change)
    version = cast("JsonObject", live.get("metadata") or {}).get("resourceVersion")
    if version and _replaces_shared_list(patch):
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}
    return patch


_HOLDS = object()

# Lists whose elements have an identity, by the name of the field.
_KEYS: dict[str, tuple[str, ...]] = {
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
_SETS = frozenset({"finalizers"})
_QUANTITIES = frozenset(
    {"requests", "limits", "capacity", "allocatable", "hard", "used", "overhead"}
)
_METRIC_QUANTITIES = frozenset({"averageValue", "value"})
"""Fields of what an autoscaler aims at, its `target`."""


def _change(live: Any, desired: Any, field: str) -> Any:
    """What to put in a merge patch at this place, or `_HOLDS`."""
    if desired is None:
        return _HOLDS if live is None else None
    if isinstance(desired, dict):
        return _object_change(live, cast("JsonObject", desired), field)
    if isinstance(desired, list):
        return _list_change(live, cast("list[Any]", desired), field)
    if live is None and (desired is False or desired == ""):
        return _HOLDS
    return _HOLDS if _equal_scalars(live, desired) else desired


def _object_change(live: Any, desired: JsonObject, field: str) -> Any:
    known = cast("JsonObject", live) if isinstance(live, dict) else {}
    changes: JsonObject = {}
    for name, wanted in desired.items():
        found = known.get(name)
        if _is_quantity(field, name) and _same_quantity(found, wanted):
            continue
        change = _change(found, wanted, name)
        if change is not _HOLDS:
            changes[name] = change
    if isinstance(live, dict) or (live is None and not changes):
        return changes or _HOLDS
    # A new object is written whole: its false and empty fields may be required ones.
    return _without_nulls(desired)


def _list_change(live: Any, desired: list[Any], field: str) -> Any:
    if live is None and not desired:
        return _HOLDS
    present = cast("list[Any]", live) if isinstance(live, list) else []
    if field in _SETS:
        wanted = [_without_nulls(item) for item in desired]
        missing = [item for item in wanted if item not in present]
        return present + missing if missing else _HOLDS
    wanted_by_key = _by_key(desired, field)
    present_by_key = _by_key(present, field)
    if wanted_by_key is None or present_by_key is None:
        same = isinstance(live, list) and len(present) == len(desired)
        if same and all(map(_holds, present, desired)):
            return _HOLDS
        return _without_nulls(desired)
    if all(
        key in present_by_key and _holds(present_by_key[key], item)
        for key, item in wanted_by_key.items()
    ):
        return _HOLDS
    return [_merged(item, wanted_by_key.get(key)) for key, item in present_by_key.items()] + [
        _without_nulls(item) for key, item in wanted_by_key.items() if key not in present_by_key
    ]


def _holds(live: Any, desired: Any) -> bool:
    return _change(live, desired, "") is _HOLDS


def _by_key(items: list[Any], field: str) -> dict[tuple[Any, ...], Any] | None:
    """The elements by their identity, None where the list has none."""
    names = _KEYS.get(field)
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


def _merged(live: Any, desired: Any) -> Any:
    """A list element with the desired fields laid over it."""
    if desired is None:
        return live
    change = _change(live, desired, "")
    if change is _HOLDS:
        return live
    return _laid_over(cast("JsonObject", live), cast("JsonObject", change))


def _laid_over(live: JsonObject, change: JsonObject) -> JsonObject:
    result = dict(live)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = _laid_over(result[name], cast("JsonObject", value))
        else:
            result[name] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        return {name: _without_nulls(item) for name, item in items if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value)]
    return value


def _replaces_shared_list(patch: Any, field: str = "") -> bool:
    if isinstance(patch, dict):
        items = cast("JsonObject", patch).items()
        return any(_replaces_shared_list(value, name) for name, value in items)
    return isinstance(patch, list) and (field in _KEYS or field in _SETS or field == "ports")


def _equal_scalars(live: Any, desired: Any) -> bool:
    # In Python true equals 1; in JSON it does not.
    return live == desired and isinstance(live, bool) == isinstance(desired, bool)


_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")
_SUFFIXES = {
    **{suffix: Decimal(10) ** (3 * i) for i, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(10) ** (3 * i) for i, suffix in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** i for i, letter in enumerate("KMGTPE", start=1)},
}


def _is_quantity(parent: str, name: str) -> bool:
    return parent in _QUANTITIES or (parent == "target" and name in _METRIC_QUANTITIES)


def _same_quantity(live: Any, desired: Any) -> bool:
    value = _quantity(desired)
    return value is not None and value == _quantity(live)


def _quantity(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    number, suffix = match.groups()
    if suffix is None:
        return Decimal(number)
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    return Decimal(number + suffix)
