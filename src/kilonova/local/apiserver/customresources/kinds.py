"""The kinds that a definition creates."""

import sys
from collections.abc import Callable
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_strings
from kilonova.local.apiserver.customresources.scale import CustomResourceScale
from kilonova.local.apiserver.customresources.schema_cache import shared_custom_schema
from kilonova.local.apiserver.customresources.strategy import CustomResourceStrategy
from kilonova.local.apiserver.endpoints.discovery import version_priority
from kilonova.local.apiserver.kinds.kind import Kind, Subresource
from kilonova.local.objects.crd_names import is_established

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")


def kinds_from_definition(definition: JsonObject) -> list[Kind]:
    """One kind for each served version; none before the definition is established.

    Versions differ in their schema only: an object is stored as written, and each version shows the
    fields that it knows. Schemas are compiled when first used.
    """
    if not is_established(definition):
        return []
    versions = [version for version in definition["spec"]["versions"] if version.get("served")]
    kinds = [_make_kind(definition, version) for version in versions]
    stored = next((version for version in versions if version.get("storage")), None)
    # If the storage version is not served, another version replaces it: the stored text is the
    # same.
    for kind, version in zip(kinds, versions, strict=True):
        if version.get("deprecated"):
            kind.strategy.deprecation = _deprecation_warning(definition, version)
        if len(versions) > 1:
            # Any object may have been written through another version.
            kind.schema_revision = sys.maxsize
        if version is not (stored or versions[0]):
            kind.to_storage = _identity_conversion
            kind.from_storage = _conversion_to(kind)
    return kinds


def _make_kind(definition: JsonObject, version: JsonObject) -> Kind:
    spec = definition["spec"]
    names: JsonObject = definition["status"]["acceptedNames"]
    group, name, kind = spec["group"], version["name"], names["kind"]
    enabled = nested_object(version, "subresources")
    scale = None
    subresources: dict[str, Subresource] = {}
    if "status" in enabled:
        subresources["status"] = Subresource("status", kind, group, name, _SUBRESOURCE_VERBS)
    if "scale" in enabled:
        scale = _parse_scale(enabled["scale"])
        subresources["scale"] = Subresource(
            "scale", "Scale", "autoscaling", "v1", _SUBRESOURCE_VERBS
        )
    load_schema = partial(shared_custom_schema, nested_object(version, "schema", "openAPIV3Schema"))
    result = Kind(
        group=group,
        version=name,
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular", ""),
        namespaced=spec["scope"] == "Namespaced",
        verbs=_allowed_verbs(definition),
        load_schema=load_schema,
        strategy=CustomResourceStrategy(version, kind, lambda: result.schema, scale),
        short_names=tuple(nested_strings(names, "shortNames")),
        categories=tuple(nested_strings(names, "categories")),
        list_kind=names.get("listKind", ""),
        subresources=subresources,
        scale=scale,
        is_custom=True,
    )
    return result


def _deprecation_warning(definition: JsonObject, version: JsonObject) -> str:
    """The warning header for a deprecated version: the definition's text, or the default one."""
    if version.get("deprecationWarning"):
        return version["deprecationWarning"]
    spec = definition["spec"]
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    replacements = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated")
    ]
    newest = min(replacements, key=version_priority, default="")
    older = newest and version_priority(newest) < version_priority(version["name"])
    return f"{text}; use {group}/{newest} {kind}" if older else text


def _allowed_verbs(definition: JsonObject) -> tuple[str, ...]:
    """The verbs served; a terminating definition allows no create."""
    if definition["metadata"].get("deletionTimestamp"):
        return tuple(verb for verb in _VERBS if verb != "create")
    return _VERBS


def _parse_scale(paths: JsonObject) -> CustomResourceScale:
    return CustomResourceScale(
        paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or ""
    )


def _identity_conversion(obj: JsonObject) -> JsonObject:
    return obj


def _conversion_to(kind: Kind) -> Callable[[JsonObject], JsonObject]:
    def convert(obj: JsonObject) -> JsonObject:
        kind.strategy.upgrade_stored(obj)
        return obj

    return convert
