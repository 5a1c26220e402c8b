"""Labels that all objects of a set carry, and whose they are."""

from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.workloads.resources import SETS


def base_labels(set_name: str, component: str, name: str) -> dict[str, str]:
    """Labels of an object `name` of a set: whose it is and what it is for."""
    return {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: set_name,
        names.COMPONENT: component,
        names.NAME: names.label_value(name),
    }


def replica_labels(set_name: str, index: int, component: str, name: str) -> dict[str, str]:
    """Labels of an object `name` of one replica of a set."""
    return {
        **base_labels(set_name, component, name),
        names.SET_REPLICA_INDEX: str(index),
    }


def is_reserved_label(key: str) -> bool:
    """Whether a label is the operator's own, and has no place in a template."""
    return key.startswith(names.RESERVED_PREFIX)


def is_reserved_annotation(key: str) -> bool:
    """Whether an annotation is the operator's own, and has no place in a template."""
    return key.startswith(names.RESERVED_PREFIX) and key != names.MNNVL_GROUP


def owner_reference(resource: Resource[Any], metadata: Metadata) -> JsonObject:
    """The reference by which an object is gone when its owner is."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by_set(
    set_: PodCliqueSet,
    name: str,
    labels: dict[str, str],
    annotations: dict[str, str] | None = None,
) -> JsonObject:
    """Metadata of an object that a set owns."""
    result: JsonObject = {
        "name": name,
        "namespace": set_.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(SETS, set_.metadata)],
    }
    return {**result, "annotations": annotations} if annotations else result
