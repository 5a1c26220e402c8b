"""What commands print: the same values as a table, as JSON or as YAML."""

from collections.abc import Sequence
from typing import Literal

import msgspec

Form = Literal["table", "json", "yaml"]


def in_form(value: object, form: Literal["json", "yaml"]) -> str:
    """A value for programs."""
    if form == "yaml":
        return msgspec.yaml.encode(value).decode().rstrip()
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what is in them, as kubectl prints them."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
    return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
