"""Labels and owner references that all objects of a set have."""

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.resources import SETS


def build_base_labels(set_name: str, component: str, name: str) -> dict[str, str]:
    """Labels of the object `name` of a set: the set, and the component."""
    return {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: set_name,
        names.COMPONENT: component,
        names.NAME: names.label_value(name),
    }


def build_replica_labels(set_name: str, index: int, component: str, name: str) -> dict[str, str]:
    """Labels of the object `name` of one replica of a set."""
    return {
        **build_base_labels(set_name, component, name),
        names.SET_REPLICA_INDEX: str(index),
    }


def is_reserved_label(key: str) -> bool:
    """Whether a label is reserved for the operator and not allowed in a template."""
    return key.startswith(names.RESERVED_PREFIX)


def is_reserved_annotation(key: str) -> bool:
    """Whether an annotation is reserved for the operator and not allowed in a template."""
    return key.startswith(names.RESERVED_PREFIX) and key != names.MNNVL_GROUP


def build_owned_metadata(
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
        "ownerReferences": [build_owner_reference(SETS, set_.metadata)],
    }
    return {**result, "annotations": annotations} if annotations else result
