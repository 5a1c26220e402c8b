"""How a module here attaches to its kind.

`@strategy("apps", "Deployment")` on a subclass of `Strategy` gives the kind of that name its
behaviour, or one of its subresources if it names that. The decorated modules are found by being in
this package.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.base import Behavior, Column
from kilonova.local.kinds.columns import CREATED_AT, NAME
from kilonova.local.kinds.form import Former, Forms
from kilonova.local.kinds.walk import strings
from kilonova.local.schema.node import Schema

Convert = Callable[[JsonObject], JsonObject]
Reads = Callable[[JsonObject], str]
"""Reads from an object the value that a field selector asks about."""


@dataclass(frozen=True, slots=True)
class Storage:
    """For a version that is stored as another one: where, and how to get there and back."""

    group: str
    to_storage: Convert
    from_storage: Convert


class Strategy(Behavior):
    """A built-in kind: what Kubernetes does between reading an object and storing it.

    Subclasses fill in defaults in `fill`, which finds the object in the form that Go gives
    it: structs are there, empty values are not.
    """

    storage: Storage | None = None
    """Set where the version is not the one that is stored."""

    columns: Sequence[Column] = (NAME, CREATED_AT)

    _forms: ClassVar[Forms] = Forms()

    def __init__(self, load_schema: Callable[[], Schema]) -> None:
        self._load_schema = load_schema
        self._form: Former | None = None
        self._form_status: Former | None = None
        self._has_status = False

    def form(self, obj: JsonObject) -> None:
        """Give the object the form that Go gives it, and no more."""
        self._compiled()(obj)

    def validate(self, obj: JsonObject) -> list[Problem]:
        return [*_finalizer_problems(obj["metadata"]), *self.problems(obj)]

    def problems(self, obj: JsonObject) -> list[Problem]:
        """What is wrong with the object beyond its metadata."""
        return []

    def prepare_create(self, obj: JsonObject) -> None:
        if self.status_by_subresource and not self.born_with_status:
            self.reset_status(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        if self.status_by_subresource:
            _carry(new, old, "status")

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        _carry(new, old, "spec")

    def reset_status(self, obj: JsonObject) -> None:
        """Put the status of an object that nobody has looked at yet."""
        self._compiled()
        if self._has_status:
            obj["status"] = self._form_status({}) if self._form_status else {}

    def _compiled(self) -> Former:
        if self._form is None:
            schema = self._load_schema()
            status = schema.properties.get("status")
            self._has_status = status is not None
            self._form_status = self._forms.former(status) if status else None
            self._form = self._forms.former(schema) or _as_it_is
        return self._form


_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

S = TypeVar("S", bound=type[Strategy])

_strategies: dict[tuple[str, str, str, str], type[Strategy]] = {}


def strategy(
    group: str, kind: str, version: str = "v1", *, subresource: str = ""
) -> Callable[[S], S]:
    """Give the built-in kind of that name this behaviour."""

    def attach(cls: S) -> S:
        _strategies[group, version, kind, subresource] = cls
        return cls

    return attach


def strategy_of(group: str, version: str, kind: str) -> type[Strategy]:
    """The class that was attached, or the plain one."""
    return _strategies.get((group, version, kind, ""), Strategy)


def strategies_of_subresources(group: str, version: str, kind: str) -> dict[str, type[Strategy]]:
    """The classes that were attached to subresources of the kind, by their names."""
    return {
        subresource: cls
        for (*of, subresource), cls in _strategies.items()
        if subresource and of == [group, version, kind]
    }


def _finalizer_problems(metadata: JsonObject) -> list[Problem]:
    """Built-in kinds want finalizers to say whose they are."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, detail)
        for index, name in enumerate(strings(metadata, "finalizers"))
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _carry(new: JsonObject, old: JsonObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _as_it_is(value: Any) -> Any:
    return value
