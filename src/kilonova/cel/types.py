"""The types of CEL expressions, as in the compiler's messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class FieldTypes(Protocol):
    """The types of an object's fields by name; a dictionary is one."""

    def get(self, name: str, /) -> CelType | None: ...


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as in messages; `item` is the element type of a list, a map or an optional."""

    name: str
    item: CelType | None = None
    fields: FieldTypes | None = field(default=None, compare=False)

    @property
    def is_optional(self) -> bool:
        """Whether the type is an optional or contains one."""
        return "optional_type" in self.name


DYN = CelType("dyn")
BOOL = CelType("bool")
STRING = CelType("string")
INT = CelType("int")


def list_of(item: CelType) -> CelType:
    return CelType(f"list({item.name})", item)


def map_of(item: CelType) -> CelType:
    return CelType(f"map(string, {item.name})", item)


def optional_of(item: CelType) -> CelType:
    return CelType(f"optional_type({item.name})", item)


def parse_type(name: str) -> CelType:
    """The type with this name in the compiler's notation."""
    if name.startswith("list("):
        return CelType(name, parse_type(name[5:-1]))
    if name.startswith("optional_type("):
        return CelType(name, parse_type(name[14:-1]))
    if name.startswith("map("):
        _, _, item = name[4:-1].partition(", ")
        return CelType(name, parse_type(item))
    return CelType(name)
