"""Generate the TypeScript types of the console's rows and descriptions from the Python ones.

In `frontend/src/data`, `rows.ts` is generated from the rows of the tables of this repository, and
`description-types.ts` from `kilonova.console.description`. A field is optional if the encoder omits
it, which it does for default values. `--check` writes nothing and fails if a file is stale.
"""

import typing
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any

import msgspec

from kilonova.component.console import Table, pages, values
from kilonova.component.console.registered import build_with_contributions
from kilonova.console import core
from kilonova.console.description import Description
from kilonova.console.rows import model
from kilonova.console.server import DERIVED_TABLES
from tools.crds.docstrings import get_field_description, get_type_description
from tools.tables import ROOT, write_tables

FOLDER = ROOT / "frontend" / "src" / "data"
HEADER = (
    "/** Rows of the tables, as the server sends them. Generated from "
    "src/kilonova/console/rows/model.py by tools/frontend/rows.py: do not edit. */\n"
)
DESCRIPTION_HEADER = (
    "/** What components contribute to the page. Generated from "
    "src/kilonova/console/description.py by tools/frontend/rows.py: do not edit. */\n"
)
ALIASES: dict[Any, str] = {
    pages.Format: "Format",
    pages.Tone: "Tone",
    pages.Chart: "Chart",
    pages.Section: "Section",
}
"""Types of descriptions with a name of their own."""
ALWAYS_SENT = {(model.NodeRow, "state")}
"""Fields with a default that is always replaced by a computed value."""
MAX_LINE = 120
PRIMITIVES = {str: "string", int: "number", float: "number", bool: "boolean"}


def main() -> None:
    write_tables(
        "tools.frontend.rows",
        "Generate the TypeScript types of the console's rows.",
        lambda: {
            "rows.ts": build_module().encode(),
            "description-types.ts": build_description_module().encode(),
        },
        FOLDER,
    )


def build_module() -> str:
    """The text of the module."""
    rows = list_tables()
    parts = [
        HEADER,
        '/** Amounts by resource name, e.g. {"nvidia.com/gpu": 8}; bytes for memory. */\n'
        "export type Amounts = Record<string, number>;\n",
        *map(build_interface, order_types(rows.values())),
        build_tables(rows),
        "export type TableName = keyof Rows;\n",
    ]
    return "\n".join(parts)


def build_description_module() -> str:
    """The text of the module with the types of descriptions."""
    aliases = [build_alias(name, typing.get_args(hint)) for hint, name in ALIASES.items()]
    types = map(build_interface, order_types([Description]))
    return "\n".join([DESCRIPTION_HEADER, *aliases, *types])


def build_alias(name: str, members: Iterable[Any]) -> str:
    """A named union, one member per line if it is long, as the formatter has it."""
    union = format_union(members)
    line = f"export type {name} = {union};"
    if len(line) > MAX_LINE:
        line = "\n  | ".join([f"export type {name} =", *union.split(" | ")]) + ";"
    return f"{line}\n"


def list_tables() -> dict[str, type[model.Row]]:
    """The row type of each table, by name."""
    return {
        **{table.name: typing.get_type_hints(table.row)["return"] for table in own_tables()},
        **DERIVED_TABLES,
    }


def own_tables() -> list[Table[Any]]:
    """The tables of the components of this repository that views read. Those that only described
    pages show need no types."""
    contributions = [core.CONTRIBUTION]
    build_with_contributions(contributions.extend)
    described = {page.table for each in contributions for page in each.pages}
    tables = (table for each in contributions for table in each.tables)
    return [table for table in tables if table.name not in described]


def order_types(rows: Iterable[type[Any]]) -> list[type[Any]]:
    """Each row type once, after the types of its fields."""
    ordered: dict[type[Any], None] = {}
    for row in rows:
        for field in msgspec.structs.fields(row):
            ordered |= dict.fromkeys(order_types(find_structs(field.type)))
        ordered[row] = None
    return list(ordered)


def find_structs(hint: Any) -> list[type[Any]]:
    """The struct types that occur in a type."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [found for each in typing.get_args(hint) for found in find_structs(each)]


def build_interface(struct: type[Any]) -> str:
    """The interface of a struct."""
    lines = [
        *format_comment(get_type_description(struct), ""),
        f"export interface {struct.__name__} {{",
    ]
    config: msgspec.structs.StructConfig = struct.__struct_config__
    if config.tag_field:
        lines.append(f'  {config.tag_field}: "{config.tag}";')
    for field in msgspec.structs.fields(struct):
        has_default = not field.required
        omitted = config.omit_defaults and has_default and (struct, field.name) not in ALWAYS_SENT
        lines += format_comment(get_field_description(struct, field.name), "  ")
        null = "" if config.omit_defaults or not accepts_none(field.type) else " | null"
        optional = "?" if omitted else ""
        lines.append(f"  {field.encode_name}{optional}: {format_type(field.type)}{null};")
    return "\n".join([*lines, "}", ""])


def accepts_none(hint: Any) -> bool:
    return NoneType in typing.get_args(hint)


def build_tables(rows: dict[str, type[model.Row]]) -> str:
    """The interface that maps names of tables to their rows."""
    lines = [f"  {table}: {row.__name__};" for table, row in rows.items()]
    return "\n".join(
        ["/** The row type of each table. */", "export interface Rows {", *lines, "}", ""]
    )


def format_type(hint: Any) -> str:
    """A type of a field in TypeScript; None is not sent, so it is no part of the type."""
    if hint in PRIMITIVES:
        return PRIMITIVES[hint]
    for alias, name in ALIASES.items():
        if hint == alias:
            return name
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return format_type(arguments[0])
    if origin is typing.Literal:
        return format_union(arguments)
    if origin is dict and hint == values.Amounts:
        return "Amounts"
    if origin is dict:
        return f"Record<{format_type(arguments[0])}, {format_type(arguments[1])}>"
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"{format_type(arguments[0])}[]"
    if origin is tuple:
        return f"[{', '.join(map(format_type, arguments))}]"
    if origin in (UnionType, typing.Union):
        return format_union(arguments)
    return hint.__name__


def format_union(members: Iterable[Any]) -> str:
    """One of several types or texts."""
    names = (
        f'"{each}"' if isinstance(each, str) else format_type(each)
        for each in members
        if each is not NoneType
    )
    return " | ".join(dict.fromkeys(names))


def format_comment(text: str, indent: str) -> list[str]:
    return [f"{indent}/** {' '.join(text.split())} */"] if text else []


if __name__ == "__main__":
    main()
