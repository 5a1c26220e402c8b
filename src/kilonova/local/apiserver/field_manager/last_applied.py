"""The last-applied annotation of client-side `kubectl apply`, and the migration from it.

kubectl's server-side apply may overwrite fields that its client-side apply set, as long as their
values are unchanged since; and it updates the annotation, so that client-side apply still works
afterwards.
"""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.field_manager.comparison import compare_objects
from kilonova.local.apiserver.field_manager.field_sets import FieldSet, difference, union_all
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema
from kilonova.local.apiserver.field_manager.owned_fields import applied_fields

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATION_BYTES = 256 * 1024


def unchanged_since_last_applied(
    schema: MergeSchema, live: JsonObject, api_version: str
) -> FieldSet:
    """The fields of the last client-side apply that still have its values."""
    text = _annotations(live).get(LAST_APPLIED_ANNOTATION)
    if not text:
        return {}
    try:
        last = msgspec.json.decode(text, type=JsonObject)
    except msgspec.DecodeError:
        return {}
    if last.get("apiVersion") != api_version:
        return {}
    changes = compare_objects(schema, last, live)
    return difference(
        applied_fields(schema, last), union_all([changes.added, changes.modified, changes.removed])
    )


def update_last_applied(obj: JsonObject, applied: JsonObject) -> None:
    """Write the applied configuration into the annotation, if the object has it."""
    annotations = _annotations(obj)
    if not annotations.get(LAST_APPLIED_ANNOTATION):
        return
    annotations[LAST_APPLIED_ANNOTATION] = _encode_configuration(applied)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        del annotations[LAST_APPLIED_ANNOTATION]


def _annotations(obj: JsonObject) -> dict[str, str]:
    return obj.get("metadata", {}).get("annotations") or {}


def _encode_configuration(applied: JsonObject) -> str:
    metadata: JsonObject = dict(applied.get("metadata") or {})
    if metadata.get("annotations") is not None:
        kept = {
            key: text
            for key, text in metadata["annotations"].items()
            if key != LAST_APPLIED_ANNOTATION
        }
        metadata["annotations"] = kept
    text = msgspec.json.encode({**applied, "metadata": metadata}, order="sorted").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"
