"""The four patch types, each as a function from the current object to the desired one."""

from collections.abc import Callable, Set
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    ApiError,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    unsupported_media_type,
)
from kilonova.local.apimachinery.patch import (
    deep_copy,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from kilonova.local.apimachinery.patch.values import go_json_kind
from kilonova.local.apiserver.endpoints.negotiation import decode_json, decode_yaml
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.field_manager import apply
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry import object_lifecycle
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.registry.object_checks import (
    check_group_version_kind,
    check_name,
    conform_to_schema,
    unchecked_metadata,
)
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.registry.writes import ObjectUpdate

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ConformPatched = Callable[[Any], JsonObject]
"""Checks and normalizes the result of a patch, or raises."""


def parse_patch_type(content_type: str, target: ResourceTarget) -> str:
    """The patch type of a body; 415 if the kind does not support it."""
    media_type = content_type.partition(";")[0].strip().lower()
    supported = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not target.kind.is_custom:
        supported.insert(2, STRATEGIC_MERGE_PATCH)
    if media_type == STRATEGIC_MERGE_PATCH and target.kind.is_custom:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(supported)
        )
    if media_type not in supported:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return media_type


def make_patch(
    target: ResourceTarget, media_type: str, body: bytes, options: WriteOptions
) -> ObjectUpdate:
    """JSON patch, merge patch or strategic merge patch of an existing object."""
    patch = _decode_patch(media_type, body)
    patched = _patch_function(target, media_type, patch)

    def update(old: JsonObject | None) -> JsonObject:
        assert old is not None
        new = patched(old)
        try:
            check_group_version_kind(target, new)
            untouched_fields = _untouched_fields(target.kind, media_type, patch, new)
            conform_to_schema(target, new, None, options, untouched_fields)
        except ApiError as error:
            raise _invalid_patch_error(new, error) from error
        check_name(target, unchecked_metadata(new))
        return new

    return update


def make_patch_as(
    target: ResourceTarget, media_type: str, body: bytes, conform: ConformPatched
) -> ObjectUpdate:
    """The same for a view of the object as another kind, such as a Scale."""
    patched = _patch_function(target, media_type, _decode_patch(media_type, body))

    def update(old: JsonObject | None) -> JsonObject:
        assert old is not None
        new = conform(patched(old))
        check_name(target, unchecked_metadata(new))
        return new

    return update


def _decode_patch(media_type: str, body: bytes) -> Any:
    prefix = "" if media_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    return decode_json(body, prefix)


def _patch_function(
    target: ResourceTarget, media_type: str, patch: Any
) -> Callable[[JsonObject], JsonObject]:
    if media_type == JSON_PATCH:
        return lambda old: json_patch(old, patch)
    if media_type == MERGE_PATCH:
        return lambda old: merge_patch(old, patch)
    schema = target.kind.schema
    return lambda old: strategic_merge_patch(old, patch, schema)


def _untouched_fields(
    kind: Kind, media_type: str, patch: JsonObject | None, new: JsonObject
) -> Set[str]:
    """Top-level fields of a built-in object that a merge patch does not change."""
    if media_type == JSON_PATCH or kind.is_custom or kind.from_storage is not None:
        return frozenset()
    changed = patch or {}
    return frozenset() if any(map(_is_directive, changed)) else new.keys() - changed.keys()


def _is_directive(name: str) -> bool:
    return name.startswith("$")


def make_apply(
    target: ResourceTarget, body: bytes, options: WriteOptions, now: str
) -> ObjectUpdate:
    """Server-side apply: the manager becomes the owner of the fields in the body."""
    kind = target.kind
    config = decode_yaml(body) if not body.lstrip().startswith(b"{") else decode_json(body)
    if not isinstance(config, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {go_json_kind(config)} into Go value of type map[string]interface {{}}"
        )
    applied = cast(JsonObject, config)
    api_version, name = applied.get("apiVersion", ""), applied.get("kind", "")
    if api_version != kind.api_version or name != kind.kind:
        version = api_version if "/" in str(api_version) else f"/{api_version}"
        raise bad_request(f"invalid object type: {version}, Kind={name}")
    check_name(target, unchecked_metadata(applied))
    options.is_apply = True

    def update(old: JsonObject | None) -> JsonObject:
        uid = unchecked_metadata(applied).get("uid")
        if old is None and uid:
            raise conflict(
                kind.group,
                kind.plural,
                target.name,
                f"uid mismatch: the provided object specified uid {uid}, "
                "and no existing object was found",
            )
        new = apply(
            old,
            deep_copy(applied),
            kind.schema,
            manager=options.manager,
            force=bool(options.force),
            subresource=target.subresource,
            api_version=kind.api_version,
            time=now,
            ignored=object_lifecycle.owned_fields_filter(kind, target.subresource),
        )
        conform_to_schema(target, new, None, options)
        return new

    return update


def _invalid_patch_error(new: JsonObject, error: ApiError) -> ApiError:
    """The error for a patch whose result is not a valid object of the kind."""
    _head, _, detail = error.message.partition(": ")
    return invalid("", "", "", [invalid_value("patch", encode(new).decode(), detail or _head)])
