"""What is meant where a set says nothing. Pure.

Only what the schema of the kind cannot know is filled in here, as it follows from other fields.
The object may be of any form still: it has not been checked against its schema.
"""

import copy
from collections.abc import Iterator
from typing import Any, cast

from kilonova.api.json import JsonObject

TERMINATION_DELAY = "4h"
_GRACE_SECONDS = 30


def defaulted(obj: JsonObject, old: JsonObject | None = None) -> JsonObject:
    """The set with everything filled in that it leaves out; `obj` is left as it is.

    Replacing a set: what may not change, and is left out, is what it was in `old`.
    """
    filled = copy.deepcopy(obj)
    metadata = filled.setdefault("metadata", {})
    if isinstance(metadata, dict) and not cast(JsonObject, metadata).get("namespace"):
        metadata["namespace"] = "default"
    template = _template(filled)
    if template is None:
        return filled
    _set_unless_there(template, "terminationDelay", TERMINATION_DELAY)
    _set_unless_there(template, "headlessServiceConfig", {"publishNotReadyAddresses": True})
    before = {clique.get("name"): clique for clique in _cliques(_template(old or {}) or {})}
    for clique in _cliques(template):
        spec = _object(clique.get("spec"))
        if spec is not None:
            was = _object(before.get(clique.get("name"), {}).get("spec")) or {}
            if not spec.get("roleName"):
                role = was.get("roleName") or clique.get("name")
                if isinstance(role, str) and role:
                    spec["roleName"] = role
            _fill_clique(spec, was.get("minAvailable"))
    for group in _objects(template, "podCliqueScalingGroups"):
        scaling = _object(group.get("scaleConfig"))
        if scaling is not None:
            replicas = group.get("replicas")
            _set_unless_there(scaling, "minReplicas", 1 if replicas is None else replicas)
    return filled


def taken_as_one(obj: JsonObject) -> tuple[str, ...]:
    """A warning for each clique that says 0 where at least one pod is made."""
    cliques = _cliques(_template(obj) or {})
    return tuple(
        f"spec.template.cliques[{index}].spec.replicas: 0 is taken as 1; "
        "scale the PodClique to have none"
        for index, clique in enumerate(cliques)
        if _is_zero((_object(clique.get("spec")) or {}).get("replicas"))
    )


def _fill_clique(spec: JsonObject, min_available: Any) -> None:
    if spec.get("replicas") is None or _is_zero(spec["replicas"]):
        spec["replicas"] = 1
    replicas = spec["replicas"]
    _set_unless_there(spec, "minAvailable", replicas if min_available is None else min_available)
    pods = _object(spec.get("podSpec"))
    if pods is not None:
        if not pods.get("restartPolicy"):
            pods["restartPolicy"] = "Always"
        _set_unless_there(pods, "terminationGracePeriodSeconds", _GRACE_SECONDS)
    scaling = _object(spec.get("autoScalingConfig"))
    if scaling is not None:
        _set_unless_there(scaling, "minReplicas", replicas)


def _set_unless_there(obj: JsonObject, name: str, value: Any) -> None:
    if obj.get(name) is None:
        obj[name] = value


def _is_zero(value: Any) -> bool:
    return type(value) is int and value == 0


def _template(obj: JsonObject) -> JsonObject | None:
    return _object((_object(obj.get("spec")) or {}).get("template"))


def _cliques(template: JsonObject) -> list[JsonObject]:
    return list(_objects(template, "cliques"))


def _objects(obj: JsonObject, name: str) -> Iterator[JsonObject]:
    listed = obj.get(name)
    if isinstance(listed, list):
        for each in cast("list[Any]", listed):
            if isinstance(each, dict):
                yield cast(JsonObject, each)


def _object(value: Any) -> JsonObject | None:
    return cast(JsonObject, value) if isinstance(value, dict) else None
