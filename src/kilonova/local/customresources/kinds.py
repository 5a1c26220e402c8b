"""From a definition to the kinds that it makes."""

import sys
from collections.abc import Callable
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.local.customresources.acceptance import is_established
from kilonova.local.customresources.behavior import CustomBehavior
from kilonova.local.customresources.scale import CustomScale
from kilonova.local.discovery import version_order
from kilonova.local.kinds.base import Kind, Subresource
from kilonova.local.kinds.walk import part, strings
from kilonova.local.schema.builtin import custom_schema

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")


def kinds_of(definition: JsonObject) -> list[Kind]:
    """One kind for each served version; none before the definition is established.

    Versions differ in their schema only: an object is stored as it is, and shown by each
    version as far as that version knows its fields. Schemas are read when first used.
    """
    if not is_established(definition):
        return []
    versions = [version for version in definition["spec"]["versions"] if version.get("served")]
    kinds = [_kind(definition, version) for version in versions]
    stored = next((version for version in versions if version.get("storage")), None)
    # Where the stored version is not served, another one stands for it: the text is the same.
    for kind, version in zip(kinds, versions, strict=True):
        if version.get("deprecated"):
            kind.behavior.deprecation = _deprecation(definition, version)
        if len(versions) > 1:
            kind.fresh_rv = sys.maxsize  # any object may have come through another version
        if version is not (stored or versions[0]):
            kind.to_storage = _unchanged
            kind.from_storage = _shown_by(kind)
    return kinds


def _kind(definition: JsonObject, version: JsonObject) -> Kind:
    spec = definition["spec"]
    names: JsonObject = definition["status"]["acceptedNames"]
    group, name, kind = spec["group"], version["name"], names["kind"]
    asked = part(version, "subresources")
    scale = None
    subresources: dict[str, Subresource] = {}
    if "status" in asked:
        subresources["status"] = Subresource("status", kind, group, name, _SUBRESOURCE_VERBS)
    if "scale" in asked:
        scale = _scale(asked["scale"])
        subresources["scale"] = Subresource(
            "scale", "Scale", "autoscaling", "v1", _SUBRESOURCE_VERBS
        )
    load_schema = partial(custom_schema, part(version, "schema", "openAPIV3Schema"))
    made = Kind(
        group=group,
        version=name,
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular", ""),
        namespaced=spec["scope"] == "Namespaced",
        verbs=_verbs(definition),
        load_schema=load_schema,
        behavior=CustomBehavior(version, kind, lambda: made.schema, scale),
        short_names=tuple(strings(names, "shortNames")),
        categories=tuple(strings(names, "categories")),
        list_kind=names.get("listKind", ""),
        subresources=subresources,
        scale=scale,
        custom=True,
    )
    return made


def _deprecation(definition: JsonObject, version: JsonObject) -> str:
    """What whoever uses the version is told: the definition's words, or where to go instead."""
    if version.get("deprecationWarning"):
        return version["deprecationWarning"]
    spec = definition["spec"]
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    better = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated")
    ]
    newest = min(better, key=version_order, default="")
    older = newest and version_order(newest) < version_order(version["name"])
    return f"{text}; use {group}/{newest} {kind}" if older else text


def _verbs(definition: JsonObject) -> tuple[str, ...]:
    """A definition that is going away lets nobody in any more."""
    if definition["metadata"].get("deletionTimestamp"):
        return tuple(verb for verb in _VERBS if verb != "create")
    return _VERBS


def _scale(paths: JsonObject) -> CustomScale:
    return CustomScale(
        paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or ""
    )


def _unchanged(obj: JsonObject) -> JsonObject:
    return obj


def _shown_by(kind: Kind) -> Callable[[JsonObject], JsonObject]:
    def shown(obj: JsonObject) -> JsonObject:
        kind.behavior.refresh(obj)
        return obj

    return shown
