"""Uniqueness of items in lists of type set or map."""

from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, duplicate_value, invalid_value
from kilonova.local.apiserver.schema.node import Schema


def validate_lists(schema: Schema, value: Any) -> list[FieldError]:
    """The duplicate items in all lists inside `value`."""
    problems: list[FieldError] = []
    _visit(schema, value, "", problems)
    return problems


def _visit(schema: Schema, value: Any, path: str, problems: list[FieldError]) -> None:
    if type(value) is dict:
        for name, inner in cast(JsonObject, value).items():
            if type(inner) is not dict and type(inner) is not list:
                continue
            if name in schema.properties:
                child_path = f"{path}.{name}" if path else name
                _visit(schema.properties[name], inner, child_path, problems)
            elif schema.additional is not None:
                _visit(schema.additional, inner, f"{path}[{name}]", problems)
    elif type(value) is list:
        items = cast(list[Any], value)
        if schema.list_type == "set":
            problems.extend(_duplicate_items(items, path))
        elif schema.list_type == "map":
            problems.extend(_duplicate_keys(schema, items, path))
        if schema.items is not None:
            for index, inner in enumerate(items):
                _visit(schema.items, inner, f"{path}[{index}]", problems)


def _duplicate_keys(schema: Schema, items: list[Any], path: str) -> list[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            detail = "must be an object for an array of list-type map"
            return [invalid_value(f"{path}[{index}]", item, detail)]
    keys = [
        {key: item[key] for key in schema.list_map_keys if key in item} if item else {}
        for item in items
    ]
    return _duplicate_items(keys, path)


def _duplicate_items(items: list[Any], path: str) -> list[FieldError]:
    """A duplicate value is reported once, at its second occurrence."""
    if len(items) < 2:
        return []
    times: dict[bytes, int] = {}
    problems: list[FieldError] = []
    for index, item in enumerate(items):
        text = msgspec.json.encode(item, order="sorted")
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            problems.append(duplicate_value(f"{path}[{index}]", item))
    return problems
