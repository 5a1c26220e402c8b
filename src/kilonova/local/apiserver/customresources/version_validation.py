"""Validation of one version of a definition: schema, subresources, columns, fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.customresources.schema_cache import SchemaCache
from kilonova.local.apiserver.customresources.trusted_schemas import (
    is_trusted,
    schema_digest,
    trust_valid_schema,
)
from kilonova.local.apiserver.schema.checker import validate_structural
from kilonova.local.apiserver.schema.node import parse_schema
from kilonova.local.apiserver.schema.structural.formats import format_predicate

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
"""The fields allowed at a schema's root if status is a subresource, with Go's names for them."""


def has_status_subresource(version: JsonObject) -> bool:
    """Whether status is a subresource of the version."""
    return "status" in nested_object(version, "subresources")


def validate_version_schema(version: JsonObject, path: str, status: bool) -> list[FieldError]:
    """The schema must be structural, its defaults valid, and its rules must compile.

    `status` is whether status is a subresource in the versions that use this schema.
    """
    source = nested_object(version, "schema", "openAPIV3Schema")
    if not source:
        return []
    problems = _validate_root_schema(source, path) if status else []
    digest = schema_digest(source)
    if is_trusted(digest):
        return problems
    found = validate_structural(source, path)
    if not found and has_rules(source):
        from kilonova.local.apiserver.schema.cel.rule_validation import validate_rules

        found = validate_rules(parse_schema(source), path)
    if not found:
        trust_valid_schema(digest)
    return problems + found


def count_new_rules(version: JsonObject) -> int:
    """The number of rules that `validate_version_schema` compiles."""
    source = nested_object(version, "schema", "openAPIV3Schema")
    # The digest of a large schema takes a tenth of the time of counting.
    return 0 if is_trusted(schema_digest(source)) else count_rules(source)


MANY_RULES_THRESHOLD = 64
"""Compiling this many rules takes about ten milliseconds; compiling thousands takes seconds."""


def _validate_root_schema(source: JsonObject, path: str) -> list[FieldError]:
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
    """Whether a schema has rules anywhere: CEL, which is slow to load, is loaded only then."""
    return bool(source.get("x-kubernetes-validations")) or any(map(has_rules, _subschemas(source)))


def count_rules(source: JsonObject) -> int:
    """The total number of rules in a schema."""
    rules: Any = source.get("x-kubernetes-validations")
    own = len(cast(list[Any], rules)) if isinstance(rules, list) else 0
    return own + sum(map(count_rules, _subschemas(source)))


def _subschemas(source: JsonObject) -> Sequence[JsonObject]:
    """The schemas that a schema contains."""
    if source.keys().isdisjoint(_NESTING_FIELDS):  # most are scalars
        return ()
    found = [source[key] for key in _SCHEMA_FIELDS if isinstance(source.get(key), dict)]
    for key in _SCHEMA_LIST_FIELDS:
        found += nested_objects(source, key)
    found += nested_object(source, "properties").values()
    return found


_SCHEMA_FIELDS = ("items", "additionalProperties", "not")
_SCHEMA_LIST_FIELDS = ("allOf", "anyOf", "oneOf")
_NESTING_FIELDS = frozenset((*_SCHEMA_FIELDS, *_SCHEMA_LIST_FIELDS, "properties"))


def validate_deprecation(version: JsonObject, path: str) -> list[FieldError]:
    """A deprecation warning requires a deprecated version and a printable text."""
    warning: str | None = version.get("deprecationWarning")
    if warning is None:
        return []
    field_path = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid_value(field_path, warning, "can only be set for deprecated versions")]
    problems: list[FieldError] = []
    if len(warning.encode()) > 256:
        problems.append(invalid_value(field_path, warning, "must be <= 256 characters long"))
    if not warning:
        problems.append(invalid_value(field_path, warning, "must not be an empty string"))
    for index, character in enumerate(warning):
        if not character.isprintable():
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {len(warning[:index].encode())}"
            )
            problems.append(invalid_value(field_path, warning, detail))
            break
    return problems


def validate_subresources(version: JsonObject, path: str) -> list[FieldError]:
    """The paths of `scale` must be simple and inside spec and status."""
    subresources = nested_object(version, "subresources")
    if "scale" not in subresources:
        return []
    scale = nested_object(subresources, "scale")
    problems: list[FieldError] = []
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        field_path = f"{path}.scale.{field}"
        if not scale.get(field):
            problems.append(required_value(field_path))
        else:
            problems += _validate_scale_path(
                scale[field], field_path, (f"{parent}.",), f"should be a json path under {parent}"
            )
    if selector := scale.get("labelSelectorPath"):
        problems += _validate_scale_path(
            selector,
            f"{path}.scale.labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        )
    return problems


def _validate_scale_path(
    path: str, field_path: str, prefixes: tuple[str, ...] = ("",), detail: str = ""
) -> list[FieldError]:
    if not path.startswith("."):
        return [invalid_value(field_path, path, "must be a simple json path starting with .")]
    return [] if path.startswith(prefixes) else [invalid_value(field_path, path, detail)]


def validate_printer_columns(version: JsonObject, path: str) -> list[FieldError]:
    """Printer columns: name, type and path are required, type and format from a list."""
    problems: list[FieldError] = []
    for index, column in enumerate(nested_objects(version, "additionalPrinterColumns")):
        item_path = f"{path}[{index}]"
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("name"):
            problems.append(required_value(f"{item_path}.name"))
        if not column.get("type"):
            problems.append(required_value(f"{item_path}.type", types))
        elif column["type"] not in _COLUMN_TYPES:
            problems.append(invalid_value(f"{item_path}.type", column["type"], types))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
            problems.append(invalid_value(f"{item_path}.format", column["format"], detail))
        if not column.get("jsonPath"):
            problems.append(required_value(f"{item_path}.JSONPath"))
        else:
            problems += _validate_scale_path(column["jsonPath"], f"{item_path}.JSONPath")
    return problems


def validate_selectable_fields(version: JsonObject, path: str) -> list[FieldError]:
    """Selectable fields: limited in number, unique, and scalars of the schema."""
    fields = nested_objects(version, "selectableFields")
    if not fields:
        return []
    from kilonova.local.apiserver.schema.cel.field_paths import PathError, resolve_path

    schema = parse_schema(nested_object(version, "schema", "openAPIV3Schema"))
    problems: list[FieldError] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        field_path = f"{path}[{index}].jsonPath"
        text: str = field.get("jsonPath", "")
        if not text:
            problems.append(required_value(field_path))
            continue
        try:
            formatted, found = resolve_path(text, schema, brackets=False)
        except PathError as error:
            problems.append(invalid_value(field_path, text, f"is an invalid path: {error}"))
            continue
        if formatted.split(".")[0] == "metadata":
            problems.append(invalid_value(field_path, text, "must not point to fields in metadata"))
        if found.type not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            problems.append(invalid_value(field_path, text, detail))
        if formatted in seen:
            problems.append(duplicate_value(field_path, text))
        seen.add(formatted)
    if len(seen) > _SELECTABLE_LIMIT:
        detail = f"Too many: {len(seen)}: must have at most {_SELECTABLE_LIMIT} items"
        problems.append(FieldError(path, "FieldValueTooMany", detail))
    return problems


def _find_unrecognized_formats(source: JsonObject) -> list[str]:
    found: list[str] = []
    format, type = source.get("format", ""), source.get("type", "")
    if format and not _is_known_format(type, format):
        found.append(format)
    for child in _subschemas(source):
        found += _find_unrecognized_formats(child)
    return found


find_unrecognized_formats: SchemaCache[list[str]] = SchemaCache(
    _find_unrecognized_formats, limit=1024
)
"""Formats in a schema that are not validated."""


def _is_known_format(type: str, format: str) -> bool:
    if type in ("", "string"):
        return format == "password" or format_predicate(format) is not None
    return format in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(type, ())
