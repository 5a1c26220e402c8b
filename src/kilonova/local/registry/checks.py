"""From what a client sent to an object that the server can work with."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError, Problem, bad_request, invalid
from kilonova.local.kinds.base import Kind
from kilonova.local.names import object_meta_problems
from kilonova.local.registry.lifecycle import update_problems
from kilonova.local.registry.options import WriteOptions
from kilonova.local.routes import Target
from kilonova.local.schema.check import checker, duplicate_fields

_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


def check_identity(target: Target, obj: JsonObject) -> None:
    """apiVersion and kind must be those of the path, or be left out."""
    kind = target.kind
    api_version, name = obj.get("apiVersion", ""), obj.get("kind", "")
    if not isinstance(api_version, str) or not isinstance(name, str):
        raise bad_request("couldn't get version/kind; apiVersion and kind must be strings")
    if not kind.custom and not name and not api_version:
        obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
        return
    if api_version != kind.api_version:
        if not api_version and not kind.custom:
            obj["apiVersion"] = kind.api_version
        else:
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected "
                f"API version ({kind.api_version})"
            )
    if name and name != kind.kind:
        raise bad_request(
            f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: "
            f"converting ({api_version}, {name}) is not possible".replace("'", '"')
        )
    obj["kind"] = kind.kind


def admit_fields(kind: Kind, obj: JsonObject, raw: bytes | None, options: WriteOptions) -> None:
    """Types, unknown and duplicate fields, defaults. Changes `obj` in place."""
    strict = (
        duplicate_fields(raw, obj) if raw is not None and options.validation != "Ignore" else []
    )
    unknown = checker(kind.schema).admit(obj, kind.kind, kind.version)
    strict.extend(f'unknown field "{path}"' for path in unknown)
    if strict and options.validation != "Ignore":
        _tell(strict, options)
    kind.behavior.default(obj)


def admit_applied(kind: Kind, config: JsonObject, options: WriteOptions) -> None:
    """Likewise for the configuration of an apply: what it leaves out must stay left out."""
    unknown = checker(kind.schema).admit(config, kind.kind, kind.version)
    if unknown and options.validation != "Ignore":
        _tell([f'unknown field "{path}"' for path in unknown], options)


def check_namespace(target: Target, metadata: JsonObject) -> None:
    """The object's namespace must be that of the path; fills it in."""
    kind = target.kind
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        if given:
            raise bad_request(_OTHER_NAMESPACE)
        return
    if given and given != target.namespace:
        raise bad_request(_OTHER_NAMESPACE)
    metadata["namespace"] = target.namespace


def check_valid(kind: Kind, obj: JsonObject, old: JsonObject | None, options: WriteOptions) -> None:
    """422 with every problem of the object and of the change."""
    metadata = obj["metadata"]
    behavior = kind.behavior
    problems: list[Problem] = object_meta_problems(metadata, kind.namespaced, behavior.valid_name)
    problems += behavior.validate(obj)
    if old is not None:
        problems += update_problems(metadata, old["metadata"])
        problems += behavior.validate_update(obj, old)
    if problems:
        raise invalid(kind.group, kind.kind, metadata.get("name", ""), problems)
    options.warnings.extend(behavior.warnings(obj))


def _tell(strict: list[str], options: WriteOptions) -> None:
    if options.validation == "Strict":
        raise _strict_error(strict)
    options.warnings.extend(strict)


def _strict_error(strict: list[str]) -> ApiError:
    return bad_request(f"strict decoding error: {', '.join(strict)}")
