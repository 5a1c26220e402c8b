"""The built-in kinds: the generated table, with the registered strategies."""

import importlib
import pkgutil
from functools import cache, partial

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver import kinds
from kilonova.local.apiserver.kinds.kind import Kind, Subresource
from kilonova.local.apiserver.kinds.strategy import (
    BuiltinStrategy,
    StorageVersion,
    strategy_class,
    subresource_strategy_classes,
)
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.data import table


class _SubresourceRow(msgspec.Struct):
    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


class _KindRow(msgspec.Struct, rename="camel"):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: list[_SubresourceRow]
    list_kind: str


def builtin_kinds() -> list[Kind]:
    """Every built-in resource, in the order of discovery. Schemas are loaded when used."""
    _register_strategies()
    found = [
        _make_kind(row) for row in msgspec.json.decode(table("kinds.json"), type=list[_KindRow])
    ]
    stored = {(kind.group, kind.plural): kind for kind in found if _storage_version(kind) is None}
    for kind in found:
        if storage := _storage_version(kind):
            _set_conversion(kind, storage, stored[storage.group, kind.plural])
    return found


@cache
def _register_strategies() -> None:
    for module in pkgutil.walk_packages(kinds.__path__, kinds.__name__ + "."):
        importlib.import_module(module.name)


def _set_conversion(kind: Kind, storage: StorageVersion, stored: Kind) -> None:
    """Set the conversion of a kind that is stored as another version."""
    own, other = _strategy(kind), _strategy(stored)

    def to_storage(obj: JsonObject) -> JsonObject:
        converted = storage.to_storage(obj)
        other.default(converted)
        return converted

    def from_storage(obj: JsonObject) -> JsonObject:
        converted = storage.from_storage(obj)
        own.normalize(converted)
        return converted

    kind.storage_group = storage.group
    kind.to_storage, kind.from_storage = to_storage, from_storage


def _strategy(kind: Kind) -> BuiltinStrategy:
    assert isinstance(kind.strategy, BuiltinStrategy)
    return kind.strategy


def _storage_version(kind: Kind) -> StorageVersion | None:
    return _strategy(kind).storage


def _make_kind(row: _KindRow) -> Kind:
    load_schema = partial(builtin_schema, row.group, row.version, row.kind)
    strategy = strategy_class(row.group, row.version, row.kind)(load_schema)
    parts = subresource_strategy_classes(row.group, row.version, row.kind)
    subresources = {each.name: each for each in row.subresources}
    strategy.has_status_subresource = "status" in subresources
    return Kind(
        group=row.group,
        version=row.version,
        kind=row.kind,
        plural=row.plural,
        singular=row.singular,
        namespaced=row.namespaced,
        verbs=row.verbs,
        load_schema=load_schema,
        strategy=strategy,
        subresource_strategies={name: cls(load_schema) for name, cls in parts.items()},
        short_names=row.short_names,
        categories=row.categories,
        list_kind=row.list_kind,
        subresources={
            name: Subresource(each.name, each.kind, each.group, each.version, each.verbs)
            for name, each in subresources.items()
        },
    )
