"""The annotation of `kubectl apply` without `--server-side`, and moving on from it.

kubectl's server-side apply may overwrite what its client-side apply had set, as long as
nobody has changed it since; and it keeps the annotation true, for those who go back.
"""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apply.compare import compare
from kilonova.local.apply.fields import Fields, difference, shared
from kilonova.local.apply.ownership import field_set
from kilonova.local.apply.shapes import Shape

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_BYTES = 256 * 1024


def still_as_last_applied(shape: Shape, live: JsonObject, api_version: str) -> Fields:
    """The fields of the last client-side apply that still have its values."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        last = msgspec.json.decode(text, type=JsonObject)
    except msgspec.DecodeError:
        return {}
    if last.get("apiVersion") != api_version:
        return {}
    changes = compare(shape, last, live)
    return difference(
        field_set(shape, last), shared([changes.added, changes.modified, changes.removed])
    )


def renew_annotation(obj: JsonObject, applied: JsonObject) -> None:
    """Put what is applied now into the annotation, if the object has it."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return
    annotations[ANNOTATION] = _configuration(applied)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MOST_BYTES:
        del annotations[ANNOTATION]


def _annotations(obj: JsonObject) -> dict[str, str]:
    return obj.get("metadata", {}).get("annotations") or {}


def _configuration(applied: JsonObject) -> str:
    metadata: JsonObject = dict(applied.get("metadata") or {})
    if metadata.get("annotations") is not None:
        kept = {key: text for key, text in metadata["annotations"].items() if key != ANNOTATION}
        metadata["annotations"] = kept
    text = msgspec.json.encode({**applied, "metadata": metadata}, order="sorted").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"
