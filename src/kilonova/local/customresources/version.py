"""What Kubernetes asks of one version of a definition: schema, subresources, columns, fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.customresources.vouched import is_vouched_for
from kilonova.local.errors import Problem, duplicate, invalid_value, required
from kilonova.local.kinds.walk import objects, part
from kilonova.local.schema.check import structural_problems
from kilonova.local.schema.formats import predicate
from kilonova.local.schema.node import read

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_SELECTABLE_LIMIT = 8
_ROOT_FIELDS = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
"""What a schema may say at its root where status is a subresource, and Go's names for it."""


def has_status(version: JsonObject) -> bool:
    """Whether status is a subresource of the version."""
    return "status" in part(version, "subresources")


def schema_problems(version: JsonObject, path: str, status: bool) -> list[Problem]:
    """The schema must be structural, its defaults valid, its rules such as can be run.

    `status` tells whether status is a subresource where this schema is used.
    """
    source = part(version, "schema", "openAPIV3Schema")
    if not source:
        return []
    problems = _root_problems(source, path) if status else []
    if is_vouched_for(source):
        return problems
    structural = structural_problems(source, path)
    problems += structural
    if not structural and has_rules(source):
        from kilonova.local.schema.cel.review import rule_problems

        problems += rule_problems(read(source), path)
    return problems


def rules_to_compile(version: JsonObject) -> int:
    """How many rules `schema_problems` compiles."""
    source = part(version, "schema", "openAPIV3Schema")
    count = rule_count(source)
    return 0 if count and is_vouched_for(source) else count


MANY_RULES = 64
"""To compile so many takes some ten milliseconds; to compile thousands, seconds."""


def _root_problems(source: JsonObject, path: str) -> list[Problem]:
    if source.get("type", "object") != "object":
        detail = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        return [invalid_value(f"{path}.type", source["type"], detail)]
    if any(value and name not in _ROOT_FIELDS for name, value in source.items()):
        detail = (
            f"only [{' '.join(_ROOT_FIELDS.values())}] fields are allowed at the root of the "
            "schema if the status subresource is enabled"
        )
        return [invalid_value(path, source, detail)]
    return []


def has_rules(source: JsonObject) -> bool:
    """Whether a schema has rules anywhere: only then CEL is loaded, which takes a while."""
    return bool(source.get("x-kubernetes-validations")) or any(map(has_rules, _inside(source)))


def rule_count(source: JsonObject) -> int:
    """How many rules a schema has, all told."""
    written: Any = source.get("x-kubernetes-validations")
    own = len(cast(list[Any], written)) if isinstance(written, list) else 0
    return own + sum(map(rule_count, _inside(source)))


def _inside(source: JsonObject) -> Iterator[JsonObject]:
    """The schemas that a schema consists of."""
    for key in ("items", "additionalProperties", "not"):
        if isinstance(source.get(key), dict):
            yield source[key]
    for key in ("allOf", "anyOf", "oneOf"):
        yield from objects(source, key)
    yield from part(source, "properties").values()


def deprecation_problems(version: JsonObject, path: str) -> list[Problem]:
    """A warning about deprecation needs a deprecation, and a text that can be shown."""
    warning: str | None = version.get("deprecationWarning")
    if warning is None:
        return []
    place = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid_value(place, warning, "can only be set for deprecated versions")]
    problems: list[Problem] = []
    if len(warning.encode()) > 256:
        problems.append(invalid_value(place, warning, "must be <= 256 characters long"))
    if not warning:
        problems.append(invalid_value(place, warning, "must not be an empty string"))
    for index, character in enumerate(warning):
        if not character.isprintable():
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {len(warning[:index].encode())}"
            )
            problems.append(invalid_value(place, warning, detail))
            break
    return problems


def subresource_problems(version: JsonObject, path: str) -> list[Problem]:
    """The paths of a scale must be simple, and lead into spec and status."""
    subresources = part(version, "subresources")
    if "scale" not in subresources:
        return []
    scale = part(subresources, "scale")
    problems: list[Problem] = []
    for field, under in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        place = f"{path}.scale.{field}"
        if not scale.get(field):
            problems.append(required(place))
        else:
            problems += _path_problems(
                scale[field], place, (f"{under}.",), f"should be a json path under {under}"
            )
    if selector := scale.get("labelSelectorPath"):
        problems += _path_problems(
            selector,
            f"{path}.scale.labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        )
    return problems


def _path_problems(
    path: str, place: str, prefixes: tuple[str, ...] = ("",), detail: str = ""
) -> list[Problem]:
    if not path.startswith("."):
        return [invalid_value(place, path, "must be a simple json path starting with .")]
    return [] if path.startswith(prefixes) else [invalid_value(place, path, detail)]


def column_problems(version: JsonObject, path: str) -> list[Problem]:
    """Printed columns: name, type and path are needed, type and format from a list."""
    problems: list[Problem] = []
    for index, column in enumerate(objects(version, "additionalPrinterColumns")):
        place = f"{path}[{index}]"
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("name"):
            problems.append(required(f"{place}.name"))
        if not column.get("type"):
            problems.append(required(f"{place}.type", types))
        elif column["type"] not in _COLUMN_TYPES:
            problems.append(invalid_value(f"{place}.type", column["type"], types))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
            problems.append(invalid_value(f"{place}.format", column["format"], detail))
        if not column.get("jsonPath"):
            problems.append(required(f"{place}.JSONPath"))
        else:
            problems += _path_problems(column["jsonPath"], f"{place}.JSONPath")
    return problems


def selectable_problems(version: JsonObject, path: str) -> list[Problem]:
    """Selectable fields: few, different, and simple values of the schema."""
    fields = objects(version, "selectableFields")
    if not fields:
        return []
    from kilonova.local.schema.cel.paths import PathError, resolve_path

    schema = read(part(version, "schema", "openAPIV3Schema"))
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place = f"{path}[{index}].jsonPath"
        text: str = field.get("jsonPath", "")
        if not text:
            problems.append(required(place))
            continue
        try:
            written, found = resolve_path(text, schema, brackets=False)
        except PathError as error:
            problems.append(invalid_value(place, text, f"is an invalid path: {error}"))
            continue
        if written.split(".")[0] == "metadata":
            problems.append(invalid_value(place, text, "must not point to fields in metadata"))
        if found.type not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            problems.append(invalid_value(place, text, detail))
        if written in seen:
            problems.append(duplicate(place, text))
        seen.add(written)
    if len(seen) > _SELECTABLE_LIMIT:
        detail = f"Too many: {len(seen)}: must have at most {_SELECTABLE_LIMIT} items"
        problems.append(Problem(path, "FieldValueTooMany", detail))
    return problems


def unrecognized_formats(source: JsonObject) -> list[str]:
    """Formats in a schema that no value will be held to."""
    found: list[str] = []
    format, type = source.get("format", ""), source.get("type", "")
    if format and not _is_known(type, format):
        found.append(format)
    for child in _inside(source):
        found += unrecognized_formats(child)
    return found


def _is_known(type: str, format: str) -> bool:
    if type in ("", "string"):
        return format == "password" or predicate(format) is not None
    return format in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(type, ())
