"""ConfigMaps as InferenceServices, in JSON. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import names
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES
from kilonova.serving.sources.config_maps import read_config_map

STATUS = names.SERVICE_STATUS
_DROPPED = (STATUS, names.SERVICE_CONVERSION, "kubectl.kubernetes.io/last-applied-configuration")


def project_service(config_map: JsonObject, prometheus: str) -> JsonObject:
    """The InferenceService of a ConfigMap. It lacks a spec, and so cannot be decoded, if that is
    invalid: caches then keep the last valid one."""
    metadata = cast(JsonObject, config_map.get("metadata") or {})
    data = cast("dict[str, str]", config_map.get("data") or {})
    annotations = cast("dict[str, str]", metadata.get("annotations") or {})
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    config = read_config_map(data, name, namespace, prometheus, namespaced=True)
    service: JsonObject = {
        "apiVersion": INFERENCE_SERVICES.api_version,
        "kind": INFERENCE_SERVICES.kind,
        "metadata": {
            **{key: value for key, value in metadata.items() if key != "managedFields"},
            "annotations": {
                key: value for key, value in annotations.items() if key not in _DROPPED
            },
            "generation": compute_generation(data),
        },
    }
    if config.spec is not None:
        service["spec"] = config.spec
    if status := read_status(config_map):
        service["status"] = status
    return service


def project_event(event: JsonObject) -> JsonObject:
    """An event about a service as one about its ConfigMap, where users look for it."""
    involved = cast(JsonObject, event.get("involvedObject") or {})
    if involved.get("kind") != INFERENCE_SERVICES.kind:
        return event
    owner = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind}
    return {**event, "involvedObject": {**involved, **owner}}


def compute_generation(data: Mapping[str, str]) -> int:
    """A number that changes with the content: ConfigMaps have no generation."""
    text = msgspec.json.encode(dict(data), order="deterministic")
    return int.from_bytes(hashlib.sha256(text).digest()[:4]) + 1


def read_status(config_map: JsonObject) -> JsonObject:
    """The status in the annotation; nothing if there is none, or not one of ours."""
    metadata = cast(JsonObject, config_map.get("metadata") or {})
    text = cast("dict[str, str]", metadata.get("annotations") or {}).get(STATUS, "")
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.DecodeError:
        return {}


def merge_status(status: JsonObject, change: JsonObject, *, is_apply: bool) -> JsonObject:
    """A status after a merge patch, or after an apply, of which the fields are replaced whole: each
    has one writer."""
    if is_apply:
        return {**status, **change}
    merged = dict(status)
    for key, value in change.items():
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(old, dict):
            merged[key] = merge_status(
                cast(JsonObject, old), cast(JsonObject, value), is_apply=False
            )
        else:
            merged[key] = value
    return merged
