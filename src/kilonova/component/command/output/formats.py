"""Values as JSON or YAML, and rows as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Literal, cast

import msgspec

from kilonova.component.command.output.terminal_text import strip_control_characters


def encode_as(value: object, output_format: Literal["json", "yaml"]) -> str:
    """A value as JSON or YAML, with field names in camel case as in Kubernetes."""
    if output_format == "yaml":
        return msgspec.yaml.encode(_with_camel_case_keys(value)).decode().rstrip()
    return msgspec.json.format(msgspec.json.encode(_with_camel_case_keys(value)), indent=2).decode()


def encode_json_line(value: object) -> str:
    """A value as JSON on one line, for consumers that read line by line."""
    return msgspec.json.encode(_with_camel_case_keys(value)).decode()


def _with_camel_case_keys(value: object) -> object:
    """Fields of dataclasses are renamed; keys of mappings (resource names and such) are not.

    Structs declare their encoded names themselves.
    """
    if is_dataclass(value):
        values = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {_to_camel_case(name): _with_camel_case_keys(each) for name, each in values}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {key: _with_camel_case_keys(each) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [_with_camel_case_keys(each) for each in cast("Sequence[object]", value)]
    return value


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with padded columns, as kubectl prints them; control characters are stripped."""
    cells = [header, *([*map(strip_control_characters, row)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def pluralize(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
