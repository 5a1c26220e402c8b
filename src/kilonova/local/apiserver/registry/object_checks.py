"""Checks of a decoded request body: GroupVersionKind, schema, name, namespace, validation."""

from collections.abc import Callable, Iterable, Set
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, bad_request, invalid, invalid_value
from kilonova.local.apimachinery.names import validate_object_meta
from kilonova.local.apimachinery.patch.values import go_json_kind
from kilonova.local.apiserver.endpoints.negotiation import find_duplicate_fields
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.registry.object_lifecycle import validate_metadata_update
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.schema.checker import schema_checker
from kilonova.local.apiserver.schema.decode_errors import too_deep_error

_NAMESPACE_MISMATCH = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
"""The place that Kubernetes' messages contain; clients match on it."""


MAX_DEPTH = 200
"""The maximum nesting of objects and lists. All recursion over an object, up to Python's limit,
ends well below; what can be stored can also be read, patched and encoded.
"""


IsKnownKind = Callable[[str, str], bool]
"""Whether the apiVersion and kind exist."""


def check_group_version_kind(
    target: ResourceTarget, obj: JsonObject, is_known: IsKnownKind = lambda _version, _kind: False
) -> None:
    """apiVersion and kind must be those of the path, or be absent."""
    kind = target.kind
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    for field, value in (("apiVersion", api_version), ("kind", name)):
        if not isinstance(value, str):
            raise bad_request(
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{go_json_kind(value)} into Go struct field .{field} of type string"
            )
    if kind.is_custom:
        object_name = str(unchecked_metadata(obj).get("name", ""))
        _check_custom_kind(kind, api_version, name, object_name)
    else:
        problem = _kind_mismatch_error(
            kind, api_version or kind.api_version, name or kind.kind, is_known
        )
        if problem:
            version = (api_version or kind.api_version).rpartition("/")[2]
            raise bad_request(
                f'{name or kind.kind} in version "{version}" cannot be handled as a '
                f"{kind.kind}: {problem}"
            )
    obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version


def _check_custom_kind(kind: Kind, api_version: str, name: str, object_name: str) -> None:
    if api_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected "
            f"API version ({kind.api_version})"
        )
    if name != kind.kind:
        problem = invalid_value("kind", name, f"must be {kind.kind}")
        raise invalid(kind.group, name, object_name, [problem])


def _kind_mismatch_error(kind: Kind, api_version: str, name: str, is_known: IsKnownKind) -> str:
    if (api_version, name) == (kind.api_version, kind.kind):
        return ""
    if not is_known(api_version, name):
        return f'no kind "{name}" is registered for version "{api_version}" {_SCHEME}'
    package = api_version.rpartition("/")[2]
    internal = kind.group.partition(".")[0] or "core"
    return f"converting ({package}.{name}) to ({internal}.{kind.kind}): unknown conversion"


def conform_to_schema(
    target: ResourceTarget,
    obj: JsonObject,
    raw: bytes | None,
    options: WriteOptions,
    untouched_fields: Set[str] = frozenset(),
) -> None:
    """Types, unknown and duplicate fields, defaults. Modifies `obj` in place.

    `untouched_fields` are as stored: they have been checked and normalized before.
    """
    resets_ownership = unchecked_metadata(obj).get("managedFields") == []
    if untouched_fields:
        new = {name: value for name, value in obj.items() if name not in untouched_fields}
        _apply_schema(target, new, raw, options)
        for name in obj.keys() - untouched_fields - new.keys():
            del obj[name]
        obj |= {name: value for name, value in new.items() if name not in untouched_fields}
    else:
        _apply_schema(target, obj, raw, options)
    target.kind.strategy_for(target.subresource).set_defaults(obj)
    if resets_ownership:
        obj["metadata"]["managedFields"] = []


def _apply_schema(
    target: ResourceTarget, obj: JsonObject, raw: bytes | None, options: WriteOptions
) -> None:
    kind = target.kind
    text = encode(obj) if raw is None else raw
    # Too few braces to be nested this deeply; counting is much cheaper than recursion.
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _is_too_deep(obj):
        raise too_deep_error(kind.kind, kind.version)
    strict: list[str] = []
    if raw is not None and options.validation != "Ignore":
        strict = find_duplicate_fields(raw, obj)
    unknown = schema_checker(kind.schema).conform(obj, kind.kind, kind.version)
    strict.extend(f'unknown field "{path}"' for path in unknown)
    if strict and options.validation != "Ignore":
        _report_strict_errors(kind, strict, options)
    kind.strategy.normalize(obj)


def _is_too_deep(obj: JsonObject) -> bool:
    level: list[Any] = [obj]
    for _ in range(MAX_DEPTH):
        nested: list[Any] = []
        for each in level:
            values: Iterable[Any] = (
                cast(JsonObject, each).values() if isinstance(each, dict) else each
            )
            nested += [value for value in values if isinstance(value, dict | list)]
        if not nested:
            return False
        level = nested
    return True


def unchecked_metadata(obj: JsonObject) -> JsonObject:
    """The metadata of an object that is not validated yet; empty if it is not an object."""
    metadata = obj.get("metadata")
    return cast(JsonObject, metadata) if isinstance(metadata, dict) else {}


def check_name(target: ResourceTarget, metadata: JsonObject) -> None:
    """The object's name must be that of the path."""
    name = metadata.get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def check_namespace(target: ResourceTarget, metadata: JsonObject) -> None:
    """The object's namespace must be that of the path, and is set if absent."""
    kind = target.kind
    namespace = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if namespace and namespace != target.namespace:
        raise bad_request(_NAMESPACE_MISMATCH)
    metadata["namespace"] = target.namespace


def validate_object(
    target: ResourceTarget, obj: JsonObject, old: JsonObject | None, options: WriteOptions
) -> None:
    """Raise 422 with every error of the object and of the update."""
    metadata = obj["metadata"]
    kind, strategy = target.kind, target.kind.strategy_for(target.subresource)
    problems: list[FieldError] = validate_object_meta(
        metadata, kind.namespaced, strategy.name_error
    )
    problems += strategy.validate(obj)
    if old is None:
        problems += strategy.validate_create(obj)
    else:
        # Kubernetes validates these twice, and lists both causes.
        problems += validate_metadata_update(metadata, old["metadata"]) * 2
        problems += strategy.validate_update(obj, old)
    if problems:
        group = kind.group if kind.storage_group is None else kind.storage_group
        raise invalid(group, kind.kind, metadata.get("name", ""), problems)
    options.warnings.extend(strategy.warnings(obj))


def _report_strict_errors(kind: Kind, strict: list[str], options: WriteOptions) -> None:
    if options.validation != "Strict":
        options.warnings.extend(strict)
        return
    raise bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {', '.join(strict)}"
    )
