"""Labels and annotations that objects have from what people wrote.

Which of them were put there is noted on the object itself. So what people take away is taken away
there too, in the same write as all else, and nothing of what others have added.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata

_OF_TOOLS = (
    "kubectl.kubernetes.io/",
    "meta.helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "reconcile.fluxcd.io/",
    "objectset.rio.cattle.io/",
)
"""Beginnings of keys under which tools keep books on the very object that they write."""


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Keys of what was put on an object, sorted."""

    labels: list[str] = []
    annotations: list[str] = []


def copied(marks: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of a set that its gangs have too: people's own."""
    own = (names.RESERVED_PREFIX, *_OF_TOOLS)
    return {key: value for key, value in marks.items() if not key.startswith(own)}


def noted(labels: Iterable[str], annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations with the note of them, and of labels that others decide about."""
    note = _Note(sorted(labels), sorted(annotations))
    if not note.labels and not note.annotations:
        return {}
    return {**annotations, names.NOTE: msgspec.json.encode(note).decode()}


def taken_back(live: Metadata, wanted: JsonObject) -> JsonObject:
    """Wanted metadata that asks for the absence of what was noted and is wanted no more."""
    labels: Mapping[str, str] = wanted.get("labels") or {}
    annotations: Mapping[str, str] = wanted.get("annotations") or {}
    had = live.annotations.get(names.NOTE)
    if had is None or had == annotations.get(names.NOTE):
        return wanted
    try:
        note = msgspec.json.decode(had, type=_Note)
    except msgspec.DecodeError:
        note = _Note()
    return {
        **wanted,
        "labels": {**dict.fromkeys(note.labels), **labels},
        "annotations": {**dict.fromkeys((*note.annotations, names.NOTE)), **annotations},
    }
