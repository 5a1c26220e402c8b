"""Accessors for an object's name, namespace and resourceVersion, by type.

Types name their fields as they like (`resource_version`, `resourceVersion`) and omit unused ones;
the names on the wire are the same for all. The accessors are computed once per type and then cost
one attribute path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""


class MetaAccessor(NamedTuple):
    """How to read the key and the version from objects of one type."""

    key: Callable[[Any], Key]
    version: Callable[[Any], str]


@cache
def meta_accessor(type_: Any) -> MetaAccessor:
    """The accessors for a type: a Struct, a dataclass, or dict.

    `TypeError` if it lacks metadata with a name and a resourceVersion.
    """
    if (get_origin(type_) or type_) is dict:
        return MetaAccessor(_dict_key, _dict_version)
    metadata = _require_field(type_, type_, "metadata")
    name = _require_field(type_, metadata.type, "name")
    version = _require_field(type_, metadata.type, "resourceVersion")
    namespace = _find_field(metadata.type, "namespace")
    name_path = f"{metadata.name}.{name.name}"
    version_getter = attrgetter(f"{metadata.name}.{version.name}")
    if namespace is None:
        read_name = attrgetter(name_path)

        def key_without_namespace(obj: Any) -> Key:
            return ("", read_name(obj))

        return MetaAccessor(key_without_namespace, version_getter)
    read_key = attrgetter(f"{metadata.name}.{namespace.name}", name_path)
    if namespace.type is str:
        return MetaAccessor(read_key, version_getter)

    def key_with_default_namespace(obj: Any) -> Key:
        namespace, name = read_key(obj)
        return (namespace or "", name)

    return MetaAccessor(key_with_default_namespace, version_getter)


def _dict_key(obj: Any) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])


def _dict_version(obj: Any) -> str:
    return obj["metadata"]["resourceVersion"]


class _Field(NamedTuple):
    name: str
    type: Any


def _require_field(type_: Any, record_type: Any, name: str) -> _Field:
    field = _find_field(record_type, name)
    if field is None:
        raise TypeError(f"{type_.__qualname__} cannot be stored: it has no {name}")
    return field


def _find_field(type_: Any, name: str) -> _Field | None:
    """The field that is `name` on the wire, of a type or of the first record in a union.

    Only this one class is inspected: inspecting all that a type contains takes milliseconds, and a
    program has dozens of types.
    """
    for option in (type_, *get_args(type_)):
        record = get_origin(option) or option
        if isinstance(record, type) and issubclass(record, msgspec.Struct):
            found = msgspec.structs.fields(option)
            return next((_Field(f.name, f.type) for f in found if f.encode_name == name), None)
        if isinstance(record, type) and is_dataclass(record):
            if name not in {field.name for field in fields(record)}:
                return None
            return _Field(name, get_type_hints(record)[name])
    return None
