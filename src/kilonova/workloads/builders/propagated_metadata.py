"""Labels and annotations that are propagated from sets to their objects.

The propagated keys are recorded in an annotation of the object itself. So keys that users remove
from the set are removed from the object too, in the same write as other changes, and keys that
others have added to it stay.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata

_TOOL_PREFIXES = (
    "kubectl.kubernetes.io/",
    "meta.helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "reconcile.fluxcd.io/",
    "objectset.rio.cattle.io/",
)
"""Prefixes of keys in which tools record state about the object that they apply."""


class _PropagatedKeys(msgspec.Struct, frozen=True, omit_defaults=True):
    """Keys that were propagated to an object, sorted."""

    labels: list[str] = []
    annotations: list[str] = []


def select_propagated(metadata: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of a set that are propagated to its gangs: the user's own."""
    own = (names.RESERVED_PREFIX, *_TOOL_PREFIXES)
    return {key: value for key, value in metadata.items() if not key.startswith(own)}


def record_propagated_keys(labels: Iterable[str], annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations with the record of them, and of propagated labels."""
    record = _PropagatedKeys(sorted(labels), sorted(annotations))
    if not record.labels and not record.annotations:
        return {}
    return {**annotations, names.COPIED_KEYS: msgspec.json.encode(record).decode()}


def with_removed_keys(live: Metadata, wanted: JsonObject) -> JsonObject:
    """Desired metadata with nulls for keys that were propagated and are no longer desired."""
    labels: Mapping[str, str] = wanted.get("labels") or {}
    annotations: Mapping[str, str] = wanted.get("annotations") or {}
    recorded = live.annotations.get(names.COPIED_KEYS)
    if recorded is None or recorded == annotations.get(names.COPIED_KEYS):
        return wanted
    try:
        record = msgspec.json.decode(recorded, type=_PropagatedKeys)
    except msgspec.DecodeError:
        record = _PropagatedKeys()
    return {
        **wanted,
        "labels": {**dict.fromkeys(record.labels), **labels},
        "annotations": {**dict.fromkeys((*record.annotations, names.COPIED_KEYS)), **annotations},
    }
