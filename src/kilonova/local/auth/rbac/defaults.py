"""The roles and bindings that every cluster has, and how stored ones are brought up to them.

As Kubernetes does at each start: what somebody added stays, what is missing comes back, and an
object whose annotation `autoupdate` is "false" is left alone.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.auth.rbac.rules import Rule, missing
from kilonova.local.data import table
from kilonova.local.kinds.walk import at, objects, part

_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def default_objects() -> dict[str, list[JsonObject]]:
    """By plural name, in the order of their creation."""
    return msgspec.json.decode(table("default-roles.json.gz"))


def is_protected(live: JsonObject) -> bool:
    """Whether somebody wants this object to stay as it is."""
    return at(live, "metadata", "annotations", _AUTO_UPDATE) == "false"


def reconciling_patch(live: JsonObject, wanted: JsonObject) -> JsonObject | None:
    """The merge patch that brings a stored role or binding up to the default one; None: it is."""
    patch: JsonObject = {}
    for key in ("annotations", "labels"):
        present = part(live, "metadata", key)
        lacking = {
            name: value
            for name, value in part(wanted, "metadata", key).items()
            if name not in present
        }
        if lacking:
            patch.setdefault("metadata", {})[key] = lacking
    if "subjects" in wanted:
        _add(patch, live, wanted, "subjects")
    if "aggregationRule" in wanted:
        _add(patch, live, wanted, "aggregationRule", "clusterRoleSelectors")
    elif live.get("aggregationRule"):
        patch["aggregationRule"] = None
    if rules := missing(_rules(live), _rules(wanted)):
        patch["rules"] = [*objects(live, "rules"), *msgspec.to_builtins(rules)]
    return patch or None


def _rules(role: JsonObject) -> list[Rule]:
    return msgspec.convert(objects(role, "rules"), list[Rule])


def _add(patch: JsonObject, live: JsonObject, wanted: JsonObject, *path: str) -> None:
    present: list[Any] = objects(live, *path)
    lacking = [each for each in objects(wanted, *path) if each not in present]
    if lacking:
        value: Any = [*present, *lacking]
        for key in reversed(path[1:]):
            value = {key: value}
        patch[path[0]] = value
