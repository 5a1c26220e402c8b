"""Default values of a GPUWorkload that depend on other fields. Pure.

The CRD schema has the others. The object has not been validated against its schema yet, so every
field may have any type.
"""

import copy
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.api.kgwe.gpuworkload import DEFAULT_MASTER_PORT


def apply_defaults(obj: JsonObject) -> JsonObject:
    """A copy of the workload with defaults set: what it means is then seen in the object."""
    defaulted = copy.deepcopy(obj)
    spec = _as_object(defaulted.get("spec"))
    requirements = _as_object(spec.get("gpuRequirements"))
    mig = _as_object(requirements.get("mig"))
    count = requirements.get("count")
    if mig and mig.get("count") is None and isinstance(count, int):
        mig["count"] = count
    config = _as_object(spec.get("distributedConfig"))
    if config and config.get("masterPort") is None:
        config["masterPort"] = DEFAULT_MASTER_PORT
    if spec.get("isPreemptible") is True:
        spec["preemptible"] = True
    return defaulted


def _as_object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
