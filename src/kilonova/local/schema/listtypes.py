"""Lists of custom kinds that are sets or maps: their items must differ."""

from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, invalid_value
from kilonova.local.schema.node import Schema


def list_problems(schema: Schema, value: Any) -> list[Problem]:
    """The items that repeat an earlier one, in all lists inside `value`."""
    problems: list[Problem] = []
    _walk(schema, value, "", problems)
    return problems


def _walk(schema: Schema, value: Any, path: str, problems: list[Problem]) -> None:
    if type(value) is dict:
        for name, inner in cast(JsonObject, value).items():
            if type(inner) is not dict and type(inner) is not list:
                continue
            if name in schema.properties:
                child_path = f"{path}.{name}" if path else name
                _walk(schema.properties[name], inner, child_path, problems)
            elif schema.additional is not None:
                _walk(schema.additional, inner, f"{path}[{name}]", problems)
    elif type(value) is list:
        items = cast(list[Any], value)
        if schema.list_type == "set":
            problems.extend(_repeated(items, path))
        elif schema.list_type == "map":
            problems.extend(_repeated_keys(schema, items, path))
        if schema.items is not None:
            for index, inner in enumerate(items):
                _walk(schema.items, inner, f"{path}[{index}]", problems)


def _repeated_keys(schema: Schema, items: list[Any], path: str) -> list[Problem]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            detail = "must be an object for an array of list-type map"
            return [invalid_value(f"{path}[{index}]", item, detail)]
    keys = [
        {key: item[key] for key in schema.list_map_keys if key in item} if item else {}
        for item in items
    ]
    return _repeated(keys, path)


def _repeated(items: list[Any], path: str) -> list[Problem]:
    """A value is reported once, where it is met the second time."""
    if len(items) < 2:
        return []
    times: dict[bytes, int] = {}
    problems: list[Problem] = []
    for index, item in enumerate(items):
        text = msgspec.json.encode(item, order="sorted")
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            problems.append(duplicate(f"{path}[{index}]", item))
    return problems
