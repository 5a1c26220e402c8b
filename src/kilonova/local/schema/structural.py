"""Whether the schema of a custom kind is structural: that every value has one known shape.

A structural schema says the type of each field outside of `allOf`, `anyOf`, `oneOf` and
`not`; inside those it only restricts values further. Pruning and defaulting rest on it.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value, required
from kilonova.local.schema.embedded import embedded_problems
from kilonova.local.schema.limits import ABSENT
from kilonova.local.schema.matching import matcher
from kilonova.local.schema.node import read
from kilonova.local.schema.patterns import PatternError
from kilonova.local.schema.prune import pruner
from kilonova.local.schema.schemarules import schema_problems
from kilonova.local.schema.validate import validator

_JUNCTORS = ("anyOf", "allOf", "oneOf")
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
"""What belongs to the shape of a value, and may not stand in a further restriction."""


def structural_problems(source: JsonObject, path: str = "openAPIV3Schema") -> list[Problem]:
    """What makes an `openAPIV3Schema` unfit for a custom kind; rules in CEL are not looked at.

    Defaults are checked too: they must be valid, and have no fields that would be pruned.
    """
    problems: list[Problem] = []
    if source.get("nullable"):
        problems.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    rules = schema_problems(source, path)
    if not any(problem.message.endswith("is not supported") for problem in rules):
        shape = [*_invariants(source, path, "root"), *_incomplete(source, source, path, path)]
        problems += sorted(shape, key=str)
        if not shape:
            problems += _default_problems(source, path)
    return problems + rules


def _invariants(source: JsonObject, path: str, level: str) -> Iterator[Problem]:
    kind: str = source.get("type", "")
    int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    items, additional = source.get("items"), source.get("additionalProperties")
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(cast(JsonObject, items), f"{path}.items", "items")
    for name, child in _properties(source).items():
        yield from _invariants(child, f"{path}.properties[{name}]", "fields")
    if additional is not None:
        if level == "root":
            yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            child = cast(JsonObject, additional)
            yield from _invariants(child, f"{path}.additionalProperties", "fields")
        if embedded:
            yield forbidden_field(
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
    yield from _restrictions(source, path)
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield (
            invalid_value(f"{path}.type", kind, detail)
            if kind
            else required(f"{path}.type", detail)
        )
    elif not kind and not int_or_string and not preserve:
        where = {
            "root": "at the root",
            "items": "for specified array items",
            "fields": "for specified object fields",
        }
        yield required(f"{path}.type", f"must not be empty {where[level]}")
    if level == "root" and kind not in ("", "object"):
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    yield from _metadata_invariants(source, path, level == "root", embedded)
    if embedded and not preserve and not _properties(source):
        yield required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields",
        )


def _metadata_invariants(
    source: JsonObject, path: str, is_root: bool, embedded: bool
) -> Iterator[Problem]:
    properties = _properties(source)
    if is_root or embedded:
        for name in ("kind", "apiVersion"):
            found = properties.get(name, {"type": "string"}).get("type", "")
            if found != "string":
                yield invalid_value(f"{path}.properties[{name}].type", found, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{path}.properties[metadata]"
    if (is_root or embedded) and metadata.get("type") != "object":
        yield invalid_value(f"{place}.type", metadata.get("type", ""), "must be object")
    if is_root:
        beyond = set(metadata) - {"type", "default", "properties"}
        if beyond or not set(_properties(metadata)) <= {"name", "generateName"}:
            yield forbidden_field(
                place,
                "must not specify anything other than name and generateName, but metadata is "
                "implicitly specified",
            )


def _restrictions(
    source: JsonObject, path: str, *, spare_any: bool = True, spare_all: bool = True
) -> Iterator[Problem]:
    """Junctors and patterns. The two ways to write int-or-string may be spared: `anyOf` the
    two types, or that as the first of `allOf`."""
    for junctor in _JUNCTORS:
        children = cast(list[JsonObject], source.get(junctor) or [])
        if junctor == "anyOf" and spare_any and children == _INT_OR_STRING:
            continue
        for index, child in enumerate(children):
            first = junctor == "allOf" and index == 0 and spare_all
            yield from _nested(child, f"{path}.{junctor}[{index}]", spare_any=first)
    if isinstance(source.get("not"), dict):
        yield from _nested(source["not"], f"{path}.not")
    if pattern := source.get("pattern"):
        try:
            matcher(pattern)
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, detail)


def _nested(source: JsonObject, path: str, *, spare_any: bool = False) -> Iterator[Problem]:
    yield from _restrictions(source, path, spare_any=spare_any, spare_all=False)
    if isinstance(source.get("items"), dict):
        yield from _nested(source["items"], f"{path}.items")
    for name, child in _properties(source).items():
        yield from _nested(child, f"{path}.properties[{name}]")
    for key, detail in _STRUCTURAL_ONLY:
        if source.get(key) or (key in _MUST_BE_UNDEFINED and source.get(key) is not None):
            yield forbidden_field(f"{path}.{key}", detail)
    if source.get("additionalProperties"):
        yield forbidden_field(f"{path}.additionalProperties", "must be undefined to be structural")
    if "metadata" in _properties(source):
        yield forbidden_field(
            f"{path}.properties[metadata]", "must not be specified in a nested context"
        )


def _incomplete(
    rules: JsonObject, shape: Any, shape_path: str, rules_path: str
) -> Iterator[Problem]:
    """Fields that a restriction speaks of and the shape does not have."""
    for junctor in _JUNCTORS:
        for index, child in enumerate(cast(list[JsonObject], rules.get(junctor) or [])):
            yield from _nested_incomplete(
                child, shape, shape_path, f"{rules_path}.{junctor}[{index}]"
            )
    if isinstance(rules.get("not"), dict):
        yield from _nested_incomplete(rules["not"], shape, shape_path, f"{rules_path}.not")


def _nested_incomplete(
    rules: JsonObject, shape: Any, shape_path: str, rules_path: str
) -> Iterator[Problem]:
    if not isinstance(shape, dict):
        yield required(shape_path, f"because it is defined in {rules_path}")
        return
    known = cast(JsonObject, shape)
    yield from _incomplete(rules, known, shape_path, rules_path)
    if isinstance(rules.get("items"), dict):
        yield from _nested_incomplete(
            rules["items"], known.get("items"), f"{shape_path}.items", f"{rules_path}.items"
        )
    for name, child in _properties(rules).items():
        inside = f"properties[{name}]"
        yield from _nested_incomplete(
            child, _properties(known).get(name), f"{shape_path}.{inside}", f"{rules_path}.{inside}"
        )


def _default_problems(source: JsonObject, path: str) -> Iterator[Problem]:
    if source.get("default") is not None:
        default = source["default"]
        place = f"{path}.default"
        node = read(source)
        unknown: list[str] = []
        pruner(node)(deepcopy(default), "", unknown)
        if unknown:
            yield invalid_value(place, default, "must not have unknown fields")
        found = validator(source)(default, ABSENT) or embedded_problems(node, default)
        for problem in found:
            inside = "" if problem.path == "<nil>" else f".{problem.path}"
            yield replace(problem, path=place + inside)
    if isinstance(source.get("items"), dict):
        yield from _default_problems(source["items"], f"{path}.items")
    for name, child in _properties(source).items():
        yield from _default_problems(child, f"{path}.properties[{name}]")


def _properties(source: JsonObject) -> dict[str, JsonObject]:
    return source.get("properties") or {}
