"""What commands print: the same values as a table, as JSON or as YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Literal, cast

import msgspec

from kilonova.cli.screen import tamed

Form = Literal["table", "json", "yaml"]


def in_form(value: object, form: Literal["json", "yaml"]) -> str:
    """A value for programs: its fields in camel case, as Kubernetes has them."""
    if form == "yaml":
        return msgspec.yaml.encode(_in_camel_case(value)).decode().rstrip()
    return msgspec.json.format(msgspec.json.encode(_in_camel_case(value)), indent=2).decode()


def in_one_line(value: object) -> str:
    """The same as JSON without breaks, for those who read line by line."""
    return msgspec.json.encode(_in_camel_case(value)).decode()


def _in_camel_case(value: object) -> object:
    """Fields are renamed; keys of mappings are names of resources and the like, and stay.

    Structs say for themselves how their fields are written.
    """
    if is_dataclass(value):
        named = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {_camel_case(name): _in_camel_case(each) for name, each in named}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {key: _in_camel_case(each) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [_in_camel_case(each) for each in cast("Sequence[object]", value)]
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them, as kubectl prints them; cells may hold anything."""
    cells = [head, *([*map(tamed, row)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
