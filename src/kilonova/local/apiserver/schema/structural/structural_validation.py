"""Validation that the schema of a custom kind is structural.

A structural schema specifies the type of each field outside of `allOf`, `anyOf`, `oneOf` and `not`;
these may only restrict values further. Pruning and defaulting depend on it.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required_value,
)
from kilonova.local.apiserver.schema.node import parse_schema
from kilonova.local.apiserver.schema.structural.embedded_resources import (
    validate_embedded_resources,
)
from kilonova.local.apiserver.schema.structural.pattern_matching import pattern_matcher
from kilonova.local.apiserver.schema.structural.patterns import PatternError
from kilonova.local.apiserver.schema.structural.pruning import pruner
from kilonova.local.apiserver.schema.structural.schema_validation import validate_schema
from kilonova.local.apiserver.schema.structural.validation import compile_validator
from kilonova.local.apiserver.schema.structural.value_checks import ABSENT

_LOGICAL_KEYWORDS = ("anyOf", "allOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]

_MUST_BE_EMPTY = ("type", "title", "description", "x-kubernetes-list-map-keys")
_MUST_BE_UNDEFINED = ("default", "x-kubernetes-list-type", "x-kubernetes-map-type")
_MUST_BE_FALSE = (
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
_STRUCTURAL_ONLY = (
    *((key, "must be empty to be structural") for key in _MUST_BE_EMPTY),
    ("x-kubernetes-validations", "must be empty to be structural"),
    *((key, "must be undefined to be structural") for key in _MUST_BE_UNDEFINED),
    *((key, "must be false to be structural") for key in _MUST_BE_FALSE),
)
"""Keywords that are part of the structure, and forbidden in value validations."""


def validate_structural(source: JsonObject, path: str = "openAPIV3Schema") -> list[FieldError]:
    """Validate an `openAPIV3Schema` except its CEL rules.

    Defaults are validated too: they must be valid, and have no fields that would be pruned.
    """
    problems: list[FieldError] = []
    if source.get("nullable"):
        problems.append(forbidden_value(f"{path}.nullable", "nullable cannot be true at the root"))
    rules = validate_schema(source, path)
    if not any(problem.message.endswith("is not supported") for problem in rules):
        errors = [
            *_validate_invariants(source, path, "root"),
            *_validate_complete(source, source, path, path),
        ]
        problems += sorted(errors, key=str)
        if not errors:
            problems += _validate_default(source, path)
    return problems + rules


def _validate_invariants(source: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    kind: str = source.get("type", "")
    int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    items, additional = source.get("items"), source.get("additionalProperties")
    if kind == "array" and items is None:
        yield required_value(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _validate_invariants(cast(JsonObject, items), f"{path}.items", "items")
    for name, child in _properties(source).items():
        yield from _validate_invariants(child, f"{path}.properties[{name}]", "fields")
    if additional is not None:
        if level == "root":
            yield forbidden_value(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            child = cast(JsonObject, additional)
            yield from _validate_invariants(child, f"{path}.additionalProperties", "fields")
        if embedded:
            yield forbidden_value(
                f"{path}.additionalProperties",
                "must not be used if x-kubernetes-embedded-resource is set",
            )
    for extension, is_set in (
        ("preserve-unknown-fields", preserve),
        ("embedded-resource", embedded),
    ):
        if int_or_string and is_set:
            detail = "must be false if x-kubernetes-int-or-string is true"
            yield invalid_value(f"{path}.x-kubernetes-{extension}", True, detail)
    yield from _validate_restrictions(source, path)
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield (
            invalid_value(f"{path}.type", kind, detail)
            if kind
            else required_value(f"{path}.type", detail)
        )
    elif not kind and not int_or_string and not preserve:
        error_paths = {
            "root": "at the root",
            "items": "for specified array items",
            "fields": "for specified object fields",
        }
        yield required_value(f"{path}.type", f"must not be empty {error_paths[level]}")
    if level == "root" and kind not in ("", "object"):
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    yield from _validate_metadata(source, path, level == "root", embedded)
    if embedded and not preserve and not _properties(source):
        yield required_value(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields",
        )


def _validate_metadata(
    source: JsonObject, path: str, is_root: bool, embedded: bool
) -> Iterator[FieldError]:
    properties = _properties(source)
    if is_root or embedded:
        for name in ("kind", "apiVersion"):
            found = properties.get(name, {"type": "string"}).get("type", "")
            if found != "string":
                yield invalid_value(f"{path}.properties[{name}].type", found, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    field_path = f"{path}.properties[metadata]"
    if (is_root or embedded) and metadata.get("type") != "object":
        yield invalid_value(f"{field_path}.type", metadata.get("type", ""), "must be object")
    if is_root:
        other_fields = set(metadata) - {"type", "default", "properties"}
        if other_fields or not set(_properties(metadata)) <= {"name", "generateName"}:
            yield forbidden_value(
                field_path,
                "must not specify anything other than name and generateName, but metadata is "
                "implicitly specified",
            )


def _validate_restrictions(
    source: JsonObject, path: str, *, allow_any_of: bool = True, allow_all_of: bool = True
) -> Iterator[FieldError]:
    """Logical junctors and patterns. The two forms of int-or-string are allowed: `anyOf` the two
    types, or that as the first of `allOf`.
    """
    for junctor in _LOGICAL_KEYWORDS:
        children = cast(list[JsonObject], source.get(junctor) or [])
        if junctor == "anyOf" and allow_any_of and children == _INT_OR_STRING:
            continue
        for index, child in enumerate(children):
            first = junctor == "allOf" and index == 0 and allow_all_of
            yield from _validate_nested(child, f"{path}.{junctor}[{index}]", allow_any_of=first)
    if isinstance(source.get("not"), dict):
        yield from _validate_nested(source["not"], f"{path}.not")
    if pattern := source.get("pattern"):
        try:
            pattern_matcher(pattern)
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, detail)


def _validate_nested(
    source: JsonObject, path: str, *, allow_any_of: bool = False
) -> Iterator[FieldError]:
    yield from _validate_restrictions(source, path, allow_any_of=allow_any_of, allow_all_of=False)
    if isinstance(source.get("items"), dict):
        yield from _validate_nested(source["items"], f"{path}.items")
    for name, child in _properties(source).items():
        yield from _validate_nested(child, f"{path}.properties[{name}]")
    for key, detail in _STRUCTURAL_ONLY:
        if source.get(key) or (key in _MUST_BE_UNDEFINED and source.get(key) is not None):
            yield forbidden_value(f"{path}.{key}", detail)
    if source.get("additionalProperties"):
        yield forbidden_value(f"{path}.additionalProperties", "must be undefined to be structural")
    if "metadata" in _properties(source):
        yield forbidden_value(
            f"{path}.properties[metadata]", "must not be specified in a nested context"
        )


def _validate_complete(
    rules: JsonObject, structure: Any, structure_path: str, rules_path: str
) -> Iterator[FieldError]:
    """Fields that a value validation names and the structure lacks."""
    for junctor in _LOGICAL_KEYWORDS:
        for index, child in enumerate(cast(list[JsonObject], rules.get(junctor) or [])):
            yield from _validate_nested_complete(
                child, structure, structure_path, f"{rules_path}.{junctor}[{index}]"
            )
    if isinstance(rules.get("not"), dict):
        yield from _validate_nested_complete(
            rules["not"], structure, structure_path, f"{rules_path}.not"
        )


def _validate_nested_complete(
    rules: JsonObject, structure: Any, structure_path: str, rules_path: str
) -> Iterator[FieldError]:
    if not isinstance(structure, dict):
        yield required_value(structure_path, f"because it is defined in {rules_path}")
        return
    known = cast(JsonObject, structure)
    yield from _validate_complete(rules, known, structure_path, rules_path)
    if isinstance(rules.get("items"), dict):
        yield from _validate_nested_complete(
            rules["items"], known.get("items"), f"{structure_path}.items", f"{rules_path}.items"
        )
    for name, child in _properties(rules).items():
        inside = f"properties[{name}]"
        yield from _validate_nested_complete(
            child,
            _properties(known).get(name),
            f"{structure_path}.{inside}",
            f"{rules_path}.{inside}",
        )


def _validate_default(source: JsonObject, path: str) -> Iterator[FieldError]:
    if source.get("default") is not None:
        default = source["default"]
        field_path = f"{path}.default"
        node = parse_schema(source)
        unknown: list[str] = []
        pruner(node)(deepcopy(default), "", unknown)
        if unknown:
            yield invalid_value(field_path, default, "must not have unknown fields")
        found = compile_validator(source)(default, ABSENT) or validate_embedded_resources(
            node, default
        )
        for problem in found:
            inside = "" if problem.path == "<nil>" else f".{problem.path}"
            yield replace(problem, path=field_path + inside)
    if isinstance(source.get("items"), dict):
        yield from _validate_default(source["items"], f"{path}.items")
    for name, child in _properties(source).items():
        yield from _validate_default(child, f"{path}.properties[{name}]")


def _properties(source: JsonObject) -> dict[str, JsonObject]:
    return source.get("properties") or {}
