"""Resources inside resources: what every object has, checked where a schema embeds one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.names import dns_1035_label, object_meta_problems, path_segment
from kilonova.local.schema.builtin import OBJECT_META, definition_schema
from kilonova.local.schema.conform import FAULTS, conformer
from kilonova.local.schema.explain import Refusal, explain
from kilonova.local.schema.node import Schema

_Visit = Callable[[JsonObject, str], None]


def read_embedded(schema: Schema, obj: JsonObject) -> list[str]:
    """Bring the metadata of embedded resources into form; return paths of unknown fields.

    Raises `Refusal` where it cannot be read.
    """
    unknown: list[str] = []

    def visit(resource: JsonObject, path: str) -> None:
        for name in ("apiVersion", "kind"):
            if name in resource and type(resource[name]) is not str:
                problem = invalid_value(_under(path, name), resource[name], "must be a string")
                raise Refusal(str(problem))
        if resource.get("metadata") is not None:
            unknown.extend(_read_metadata(resource["metadata"], _under(path, "metadata")))

    _each(schema, obj, "", visit)
    return unknown


def embedded_problems(schema: Schema, obj: JsonObject) -> list[Problem]:
    """What is wrong with the identity and metadata of embedded resources."""
    problems: list[Problem] = []

    def visit(resource: JsonObject, path: str) -> None:
        problems.extend(_problems(resource, path))

    _each(schema, obj, "", visit)
    return problems


def _each(schema: Schema, value: Any, path: str, visit: _Visit) -> None:
    if type(value) is dict:
        fields = cast(JsonObject, value)
        if schema.embedded_resource:
            visit(fields, path)
        for name, inner in fields.items():
            if type(inner) is not dict and type(inner) is not list:
                continue
            if name in schema.properties:
                _each(schema.properties[name], inner, _under(path, name), visit)
            elif schema.additional is not None:
                _each(schema.additional, inner, f"{path}[{name}]", visit)
    elif type(value) is list and schema.items is not None:
        items = cast(list[Any], value)
        for index, inner in enumerate(items):
            _each(schema.items, inner, f"{path}[{index}]", visit)


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _read_metadata(metadata: Any, path: str) -> list[str]:
    schema = definition_schema(OBJECT_META)
    try:
        conformer(schema)(metadata)
    except FAULTS:
        try:
            return explain(schema, metadata, path)
        except Refusal as refusal:
            raise Refusal(str(invalid_value(path, metadata, str(refusal)))) from None
    return []


def _problems(resource: JsonObject, path: str) -> list[Problem]:
    problems = [
        required(_under(path, name)) for name in ("apiVersion", "kind") if name not in resource
    ]
    for name, fault in (("apiVersion", _bad_api_version), ("kind", _bad_kind)):
        if name in resource and (trouble := fault(resource[name])):
            problems.append(invalid_value(_under(path, name), resource[name], trouble))
    if type(metadata := resource.get("metadata")) is dict:
        named: JsonObject = {"name": "fakename", **metadata}
        problems += [
            replace(problem, path=_under(path, problem.path))
            for problem in object_meta_problems(named, "namespace" in named, path_segment)
        ]
    return problems


def _bad_api_version(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    return f"unexpected GroupVersion string: {value}" if value.count("/") > 1 else ""


def _bad_kind(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    trouble = dns_1035_label(value.lower())
    return f"may have mixed case, but should otherwise match: {trouble}" if trouble else ""
