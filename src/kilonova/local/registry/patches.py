"""The four kinds of patch, each as a function from the present object to the wanted one."""

from collections.abc import Callable, Set
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apply import apply
from kilonova.local.errors import (
    ApiError,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    unsupported_media_type,
)
from kilonova.local.kinds.base import Kind
from kilonova.local.negotiation import decode_json, decode_yaml
from kilonova.local.patch import copied, json_patch, merge_patch, strategic_merge_patch
from kilonova.local.patch.values import go_kind
from kilonova.local.registry.checks import (
    admit_fields,
    check_identity,
    check_name,
    metadata_of,
)
from kilonova.local.registry.objects import encode
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.ownership import untracked
from kilonova.local.registry.writes import Make
from kilonova.local.routes import Target

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Admit = Callable[[Any], JsonObject]
"""Brings what a patch made into form, or refuses it."""


def patch_type(content_type: str, target: Target) -> str:
    """Which kind of patch a body is; 415 for one that this kind does not take."""
    media_type = content_type.partition(";")[0].strip().lower()
    supported = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not target.kind.custom:
        supported.insert(2, STRATEGIC_MERGE_PATCH)
    if media_type == STRATEGIC_MERGE_PATCH and target.kind.custom:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(supported)
        )
    if media_type not in supported:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return media_type


def patching(target: Target, media_type: str, body: bytes, options: WriteOptions) -> Make:
    """JSON patch, merge patch or strategic merge patch of an object that exists."""
    patch = _decoded(media_type, body)
    patched = _patched(target, media_type, patch)

    def make(old: JsonObject | None) -> JsonObject:
        assert old is not None
        new = patched(old)
        try:
            check_identity(target, new)
            untouched = _untouched(target.kind, media_type, patch, new)
            admit_fields(target, new, None, options, untouched)
        except ApiError as error:
            raise _bad_patch(new, error) from error
        check_name(target, metadata_of(new))
        return new

    return make


def patching_as(target: Target, media_type: str, body: bytes, admit: Admit) -> Make:
    """Likewise for what shows a part of the object as another kind, such as a Scale."""
    patched = _patched(target, media_type, _decoded(media_type, body))

    def make(old: JsonObject | None) -> JsonObject:
        assert old is not None
        new = admit(patched(old))
        check_name(target, metadata_of(new))
        return new

    return make


def _decoded(media_type: str, body: bytes) -> Any:
    prefix = "" if media_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    return decode_json(body, prefix)


def _patched(target: Target, media_type: str, patch: Any) -> Callable[[JsonObject], JsonObject]:
    if media_type == JSON_PATCH:
        return lambda old: json_patch(old, patch)
    if media_type == MERGE_PATCH:
        return lambda old: merge_patch(old, patch)
    schema = target.kind.schema
    return lambda old: strategic_merge_patch(old, patch, schema)


def _untouched(kind: Kind, media_type: str, patch: JsonObject | None, new: JsonObject) -> Set[str]:
    """Fields of a built-in object that a merge says nothing about, and so are as stored."""
    if media_type == JSON_PATCH or kind.custom or kind.from_storage is not None:
        return frozenset()
    said = patch or {}
    return frozenset() if any(map(_is_directive, said)) else new.keys() - said.keys()


def _is_directive(name: str) -> bool:
    return name.startswith("$")


def applying(target: Target, body: bytes, options: WriteOptions, now: str) -> Make:
    """Server-side apply: the fields in the body become the manager's."""
    kind = target.kind
    config = decode_yaml(body) if not body.lstrip().startswith(b"{") else decode_json(body)
    if not isinstance(config, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {go_kind(config)} into Go value of type map[string]interface {{}}"
        )
    applied = cast(JsonObject, config)
    api_version, name = applied.get("apiVersion", ""), applied.get("kind", "")
    if api_version != kind.api_version or name != kind.kind:
        version = api_version if "/" in str(api_version) else f"/{api_version}"
        raise bad_request(f"invalid object type: {version}, Kind={name}")
    check_name(target, metadata_of(applied))
    options.applied = True

    def make(old: JsonObject | None) -> JsonObject:
        uid = metadata_of(applied).get("uid")
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
            copied(applied),
            kind.schema,
            manager=options.manager,
            force=options.force,
            subresource=target.subresource,
            api_version=kind.api_version,
            time=now,
            ignored=untracked(kind, target.subresource),
        )
        admit_fields(target, new, None, options)
        return new

    return make


def _bad_patch(new: JsonObject, error: ApiError) -> ApiError:
    """A patch is at fault when its outcome is no object of the kind."""
    _head, _, detail = error.message.partition(": ")
    return invalid("", "", "", [invalid_value("patch", encode(new).decode(), detail or _head)])
