"""Default values of a deployment that depend on other fields. Pure.

The CRD schema has the others. The object has not been validated against its schema yet, so every
field may have any type. Templates get no defaults: one that changes would be rolled out.
"""

import copy
from typing import Any, cast

from kilonova.api.json import JsonObject

_BOUNDS = {"maxUnavailable": 1, "maxSurge": 0}


def apply_defaults(obj: JsonObject) -> JsonObject:
    """A copy of the deployment with defaults set: what it means is then seen in the object."""
    defaulted = copy.deepcopy(obj)
    spec = defaulted.get("spec")
    if not isinstance(spec, dict):
        return defaulted
    fields = cast("JsonObject", spec)
    strategy: Any = fields.setdefault("strategy", {})
    if isinstance(strategy, dict):
        _default_strategy(cast("JsonObject", strategy))
    return defaulted


def _default_strategy(strategy: JsonObject) -> None:
    if strategy.get("type", "RollingReplace") != "RollingReplace":
        return
    for name, value in _BOUNDS.items():
        if strategy.get(name) is None:
            strategy[name] = value
