"""Where a type keeps an object's name, namespace and version.

Types name their fields as they like (`resource_version`, `resourceVersion`) and leave out
what they do not use; what is on the wire is the same for all. The accessors are worked out
once per type and then cost one attribute path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-wide objects."""


class Identity(NamedTuple):
    """How to read from objects of one type who they are and how new."""

    key: Callable[[Any], Key]
    version: Callable[[Any], str]


@cache
def identity_of(type_: Any) -> Identity:
    """The accessors for a type: a Struct, a dataclass, or dict.

    `TypeError` if it lacks metadata with a name and a resourceVersion.
    """
    if (get_origin(type_) or type_) is dict:
        return Identity(_key_in_dict, _version_in_dict)
    metadata = _field(type_, type_, "metadata")
    name = _field(type_, metadata.type, "name")
    version = _field(type_, metadata.type, "resourceVersion")
    namespace = _find(metadata.type, "namespace")
    name_path = f"{metadata.name}.{name.name}"
    version_getter = attrgetter(f"{metadata.name}.{version.name}")
    if namespace is None:
        read_name = attrgetter(name_path)

        def key_without_namespace(obj: Any) -> Key:
            return ("", read_name(obj))

        return Identity(key_without_namespace, version_getter)
    read_key = attrgetter(f"{metadata.name}.{namespace.name}", name_path)
    if namespace.type is str:
        return Identity(read_key, version_getter)

    def key_with_text(obj: Any) -> Key:
        namespace, name = read_key(obj)
        return (namespace or "", name)

    return Identity(key_with_text, version_getter)


def _key_in_dict(obj: Any) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])


def _version_in_dict(obj: Any) -> str:
    return obj["metadata"]["resourceVersion"]


class _Field(NamedTuple):
    name: str
    type: Any


def _field(type_: Any, within: Any, name: str) -> _Field:
    field = _find(within, name)
    if field is None:
        raise TypeError(f"{type_.__qualname__} cannot be kept in a store: it has no {name}")
    return field


def _find(type_: Any, name: str) -> _Field | None:
    """The field that is `name` on the wire, of a type or of the first record in a union.

    Only this one class is looked at: to inspect all that a type contains takes milliseconds,
    and a program has dozens of types.
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
