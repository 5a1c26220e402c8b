"""The default roles and bindings of a cluster, and their reconciliation at start.

As in Kubernetes: additions stay, missing rules and subjects are restored, and an object whose
annotation `autoupdate` is "false" is not touched.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.auth.rbac.rules import PolicyRule, uncovered_rules
from kilonova.local.data import table

_AUTOUPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"


def default_objects() -> dict[str, list[JsonObject]]:
    """By plural name, in the order of their creation."""
    return msgspec.json.decode(table("default-roles.json.gz"))


def is_protected(live: JsonObject) -> bool:
    """Whether the object is excluded from reconciliation."""
    return nested_value(live, "metadata", "annotations", _AUTOUPDATE_ANNOTATION) == "false"


def reconciling_patch(live: JsonObject, default: JsonObject) -> JsonObject | None:
    """The merge patch that restores the default role or binding; None if nothing is missing."""
    patch: JsonObject = {}
    for key in ("annotations", "labels"):
        present = nested_object(live, "metadata", key)
        missing = {
            name: value
            for name, value in nested_object(default, "metadata", key).items()
            if name not in present
        }
        if missing:
            patch.setdefault("metadata", {})[key] = missing
    if "subjects" in default:
        _merge_map(patch, live, default, "subjects")
    if "aggregationRule" in default:
        _merge_map(patch, live, default, "aggregationRule", "clusterRoleSelectors")
    elif live.get("aggregationRule"):
        patch["aggregationRule"] = None
    if rules := uncovered_rules(_parse_rules(live), _parse_rules(default)):
        patch["rules"] = [*nested_objects(live, "rules"), *msgspec.to_builtins(rules)]
    return patch or None


def _parse_rules(role: JsonObject) -> list[PolicyRule]:
    return msgspec.convert(nested_objects(role, "rules"), list[PolicyRule])


def _merge_map(patch: JsonObject, live: JsonObject, default: JsonObject, *path: str) -> None:
    present: list[Any] = nested_objects(live, *path)
    missing = [each for each in nested_objects(default, *path) if each not in present]
    if missing:
        value: Any = [*present, *missing]
        for key in reversed(path[1:]):
            value = {key: value}
        patch[path[0]] = value
