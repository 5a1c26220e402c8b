"""From what a client sent to an object that the server can work with."""

from collections.abc import Callable, Iterable, Set
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, bad_request, invalid, invalid_value
from kilonova.local.kinds.base import Kind
from kilonova.local.names import object_meta_problems
from kilonova.local.negotiation import repeated_fields
from kilonova.local.patch.values import go_kind
from kilonova.local.registry.lifecycle import update_problems
from kilonova.local.registry.objects import encode
from kilonova.local.registry.options import WriteOptions
from kilonova.local.routes import Target
from kilonova.local.schema.check import checker
from kilonova.local.schema.explain import too_deep

_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
"""Where Kubernetes' messages say that they looked; clients have come to know it."""


MAX_DEPTH = 200
"""Objects and lists within each other. All that is done with an object, to Python's stack, ends
well below; what can be stored can also be read, patched and shown."""


Known = Callable[[str, str], bool]
"""Whether there is such an apiVersion and kind."""


def check_identity(
    target: Target, obj: JsonObject, known: Known = lambda _version, _kind: False
) -> None:
    """apiVersion and kind must be those of the path, or be left out."""
    kind = target.kind
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    for field, value in (("apiVersion", api_version), ("kind", name)):
        if not isinstance(value, str):
            raise bad_request(
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{go_kind(value)} into Go struct field .{field} of type string"
            )
    if kind.custom:
        object_name = str(metadata_of(obj).get("name", ""))
        _check_custom_identity(kind, api_version, name, object_name)
    else:
        problem = _identity_problem(kind, api_version or kind.api_version, name or kind.kind, known)
        if problem:
            version = (api_version or kind.api_version).rpartition("/")[2]
            raise bad_request(
                f'{name or kind.kind} in version "{version}" cannot be handled as a '
                f"{kind.kind}: {problem}"
            )
    obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version


def _check_custom_identity(kind: Kind, api_version: str, name: str, object_name: str) -> None:
    if api_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected "
            f"API version ({kind.api_version})"
        )
    if name != kind.kind:
        problem = invalid_value("kind", name, f"must be {kind.kind}")
        raise invalid(kind.group, name, object_name, [problem])


def _identity_problem(kind: Kind, api_version: str, name: str, known: Known) -> str:
    if (api_version, name) == (kind.api_version, kind.kind):
        return ""
    if not known(api_version, name):
        return f'no kind "{name}" is registered for version "{api_version}" {_SCHEME}'
    package = api_version.rpartition("/")[2]
    internal = kind.group.partition(".")[0] or "core"
    return f"converting ({package}.{name}) to ({internal}.{kind.kind}): unknown conversion"


def admit_fields(
    target: Target,
    obj: JsonObject,
    raw: bytes | None,
    options: WriteOptions,
    untouched: Set[str] = frozenset(),
) -> None:
    """Types, unknown and duplicate fields, defaults. Changes `obj` in place.

    `untouched` fields are as they were stored: they have been read and formed before.
    """
    resets_ownership = metadata_of(obj).get("managedFields") == []
    if untouched:
        new = {name: value for name, value in obj.items() if name not in untouched}
        _read(target, new, raw, options)
        for name in obj.keys() - untouched - new.keys():
            del obj[name]
        obj |= {name: value for name, value in new.items() if name not in untouched}
    else:
        _read(target, obj, raw, options)
    target.kind.behavior_at(target.subresource).fill(obj)
    if resets_ownership:
        obj["metadata"]["managedFields"] = []


def _read(target: Target, obj: JsonObject, raw: bytes | None, options: WriteOptions) -> None:
    kind = target.kind
    text = encode(obj) if raw is None else raw
    # So few braces cannot be nested so deeply; counting them is much cheaper than going down.
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _is_too_deep(obj):
        raise too_deep(kind.kind, kind.version)
    strict: list[str] = []
    if raw is not None and options.validation != "Ignore":
        strict = repeated_fields(raw, obj)
    unknown = checker(kind.schema).admit(obj, kind.kind, kind.version)
    strict.extend(f'unknown field "{path}"' for path in unknown)
    if strict and options.validation != "Ignore":
        _tell(kind, strict, options)
    kind.behavior.form(obj)


def _is_too_deep(obj: JsonObject) -> bool:
    level: list[Any] = [obj]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for each in level:
            values: Iterable[Any] = (
                cast(JsonObject, each).values() if isinstance(each, dict) else each
            )
            below += [value for value in values if isinstance(value, dict | list)]
        if not below:
            return False
        level = below
    return True


def metadata_of(obj: JsonObject) -> JsonObject:
    """The metadata of an object that nothing has checked yet; empty where it is no object."""
    metadata = obj.get("metadata")
    return cast(JsonObject, metadata) if isinstance(metadata, dict) else {}


def check_name(target: Target, metadata: JsonObject) -> None:
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


def check_namespace(target: Target, metadata: JsonObject) -> None:
    """The object's namespace must be that of the path; fills it in."""
    kind = target.kind
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != target.namespace:
        raise bad_request(_OTHER_NAMESPACE)
    metadata["namespace"] = target.namespace


def check_valid(
    target: Target, obj: JsonObject, old: JsonObject | None, options: WriteOptions
) -> None:
    """422 with every problem of the object and of the change."""
    metadata = obj["metadata"]
    kind, behavior = target.kind, target.kind.behavior_at(target.subresource)
    problems: list[Problem] = object_meta_problems(metadata, kind.namespaced, behavior.valid_name)
    problems += behavior.validate(obj)
    if old is None:
        problems += behavior.validate_create(obj)
    else:
        # Kubernetes looks at these twice, and lists both as causes.
        problems += update_problems(metadata, old["metadata"]) * 2
        problems += behavior.validate_update(obj, old)
    if problems:
        group = kind.group if kind.storage_group is None else kind.storage_group
        raise invalid(group, kind.kind, metadata.get("name", ""), problems)
    options.warnings.extend(behavior.warnings(obj))


def _tell(kind: Kind, strict: list[str], options: WriteOptions) -> None:
    if options.validation != "Strict":
        options.warnings.extend(strict)
        return
    raise bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {', '.join(strict)}"
    )
