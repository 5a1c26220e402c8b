"""Default values of a PodCliqueSet. Pure.

Only defaults that depend on other fields are set here; the CRD schema has the others. The object
has not been validated against its schema yet, so every field may have any type.
"""

import copy
from collections.abc import Iterator
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.workloads.settings import DEFAULT_TERMINATION_DELAY

_DEFAULT_GRACE_PERIOD_SECONDS = 30


def apply_defaults(obj: JsonObject, old: JsonObject | None = None) -> JsonObject:
    """A copy of the set with defaults set.

    On update, immutable fields that are omitted are taken from `old`.
    """
    defaulted = copy.deepcopy(obj)
    metadata = defaulted.setdefault("metadata", {})
    if isinstance(metadata, dict) and not cast(JsonObject, metadata).get("namespace"):
        metadata["namespace"] = "default"
    template = _get_template(defaulted)
    if template is None:
        return defaulted
    _set_default(template, "terminationDelay", DEFAULT_TERMINATION_DELAY)
    _set_default(template, "headlessServiceConfig", {"publishNotReadyAddresses": True})
    old_cliques = {
        clique.get("name"): clique for clique in _list_cliques(_get_template(old or {}) or {})
    }
    for clique in _list_cliques(template):
        spec = _as_object(clique.get("spec"))
        if spec is not None:
            old_spec = _as_object(old_cliques.get(clique.get("name"), {}).get("spec")) or {}
            if not spec.get("roleName"):
                role = old_spec.get("roleName") or clique.get("name")
                if isinstance(role, str) and role:
                    spec["roleName"] = role
            _default_clique(spec, old_spec.get("minAvailable"))
    for group in _iterate_objects(template, "podCliqueScalingGroups"):
        scaling = _as_object(group.get("scaleConfig"))
        if scaling is not None:
            replicas = group.get("replicas")
            _set_default(scaling, "minReplicas", 1 if replicas is None else replicas)
    return defaulted


def warn_about_zero_replicas(obj: JsonObject) -> tuple[str, ...]:
    """A warning for each clique with `replicas: 0`, which is defaulted to 1."""
    cliques = _list_cliques(_get_template(obj) or {})
    return tuple(
        f"spec.template.cliques[{index}].spec.replicas: 0 is defaulted to 1; "
        "to run no pods, scale the PodClique to 0"
        for index, clique in enumerate(cliques)
        if _is_zero((_as_object(clique.get("spec")) or {}).get("replicas"))
    )


def _default_clique(spec: JsonObject, min_available: Any) -> None:
    if spec.get("replicas") is None or _is_zero(spec["replicas"]):
        spec["replicas"] = 1
    replicas = spec["replicas"]
    _set_default(spec, "minAvailable", replicas if min_available is None else min_available)
    pod_spec = _as_object(spec.get("podSpec"))
    if pod_spec is not None:
        if not pod_spec.get("restartPolicy"):
            pod_spec["restartPolicy"] = "Always"
        _set_default(pod_spec, "terminationGracePeriodSeconds", _DEFAULT_GRACE_PERIOD_SECONDS)
    scaling = _as_object(spec.get("autoScalingConfig"))
    if scaling is not None:
        _set_default(scaling, "minReplicas", replicas)


def _set_default(obj: JsonObject, name: str, value: Any) -> None:
    if obj.get(name) is None:
        obj[name] = value


def _is_zero(value: Any) -> bool:
    return type(value) is int and value == 0


def _get_template(obj: JsonObject) -> JsonObject | None:
    return _as_object((_as_object(obj.get("spec")) or {}).get("template"))


def _list_cliques(template: JsonObject) -> list[JsonObject]:
    return list(_iterate_objects(template, "cliques"))


def _iterate_objects(obj: JsonObject, name: str) -> Iterator[JsonObject]:
    listed = obj.get(name)
    if isinstance(listed, list):
        for each in cast("list[Any]", listed):
            if isinstance(each, dict):
                yield cast(JsonObject, each)


def _as_object(value: Any) -> JsonObject | None:
    return cast(JsonObject, value) if isinstance(value, dict) else None
