"""Tables of the console: a resource, and the row of each of its objects."""

import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kilonova.kube import Key, Resource

T = TypeVar("T")

_NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


class Row(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What the page shows of an object: plain values under an id that is unique in its table.

    Camel case on the wire; a field with its default value is omitted. Times are in seconds since
    the epoch, None if unknown.
    """

    id: str


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """Rows of one kind of object.

    `row` runs in the event loop for each change while there are viewers, so it has to be fast. An
    object for which it raises is omitted. With `last_activity`, a new viewer receives only the
    most recent objects.
    """

    name: str
    resource: Resource[T]
    row: Callable[[T], Row]
    last_activity: Callable[[T], float] | None = None
    """When an object last changed, in seconds since the epoch."""

    @property
    def row_type(self) -> type[Row] | None:
        """The type of the rows, if `row` declares it."""
        found = typing.get_type_hints(self.row).get("return")
        return found if isinstance(found, type) and issubclass(found, Row) else None

    def id_of(self, key: Key) -> str:
        """The id of an object's row: `name`, or `namespace/name`."""
        namespace, name = key
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def key_of(self, id: str) -> Key:
        """The key of a row's object; `ValueError` for an invalid id."""
        namespace, _, name = id.rpartition("/")
        parts = (namespace, name) if self.resource.namespaced else (name,)
        # The parts become path segments of API requests.
        if "/".join(parts) != id or not all(map(_NAME_PATTERN.fullmatch, parts)):
            form = "NAMESPACE/NAME" if self.resource.namespaced else "NAME"
            raise ValueError(f"{id!r} is not a valid id in table {self.name}: want {form}")
        return namespace, name
