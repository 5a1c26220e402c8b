"""The built-in kinds: the generated table, each kind with the behaviour found for it here."""

import importlib
import pkgutil
from functools import partial

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local import kinds
from kilonova.local.data import table
from kilonova.local.kinds.base import Kind, Subresource
from kilonova.local.kinds.strategy import (
    Storage,
    Strategy,
    strategies_of_subresources,
    strategy_of,
)
from kilonova.local.schema.builtin import builtin_schema


class _Subresource(msgspec.Struct):
    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


class _Row(msgspec.Struct, rename="camel"):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: list[_Subresource]
    list_kind: str


def builtin_kinds() -> list[Kind]:
    """Every built-in resource, in the order of discovery. Schemas are read when used."""
    for module in pkgutil.iter_modules(kinds.__path__, kinds.__name__ + "."):
        importlib.import_module(module.name)
    found = [_kind(row) for row in msgspec.json.decode(table("kinds.json"), type=list[_Row])]
    stored = {(kind.group, kind.plural): kind for kind in found if _storage(kind) is None}
    for kind in found:
        if storage := _storage(kind):
            _convert(kind, storage, stored[storage.group, kind.plural])
    return found


def _convert(kind: Kind, storage: Storage, stored: Kind) -> None:
    """Let the kind be stored as another version, in the form that each version has."""
    own, other = _strategy(kind), _strategy(stored)

    def to_storage(obj: JsonObject) -> JsonObject:
        converted = storage.to_storage(obj)
        other.default(converted)
        return converted

    def from_storage(obj: JsonObject) -> JsonObject:
        converted = storage.from_storage(obj)
        own.form(converted)
        return converted

    kind.storage_group = storage.group
    kind.to_storage, kind.from_storage = to_storage, from_storage


def _strategy(kind: Kind) -> Strategy:
    assert isinstance(kind.behavior, Strategy)
    return kind.behavior


def _storage(kind: Kind) -> Storage | None:
    return _strategy(kind).storage


def _kind(row: _Row) -> Kind:
    load_schema = partial(builtin_schema, row.group, row.version, row.kind)
    behavior = strategy_of(row.group, row.version, row.kind)(load_schema)
    parts = strategies_of_subresources(row.group, row.version, row.kind)
    subresources = {each.name: each for each in row.subresources}
    behavior.status_by_subresource = "status" in subresources
    return Kind(
        group=row.group,
        version=row.version,
        kind=row.kind,
        plural=row.plural,
        singular=row.singular,
        namespaced=row.namespaced,
        verbs=row.verbs,
        load_schema=load_schema,
        behavior=behavior,
        behaviors={name: cls(load_schema) for name, cls in parts.items()},
        short_names=row.short_names,
        categories=row.categories,
        list_kind=row.list_kind,
        subresources={
            name: Subresource(each.name, each.kind, each.group, each.version, each.verbs)
            for name, each in subresources.items()
        },
    )
