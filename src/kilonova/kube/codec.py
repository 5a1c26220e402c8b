"""JSON to typed objects and back: one cached decoder per type, one pass per object.

Lists and watch lines are decoded straight to the resource's type; fields that the type does
not have are skipped by the parser and cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.errors import ConnectionFailed
from kilonova.kube.resource import Resource

T = TypeVar("T")


class ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list; the Go server writes an absent slice as null."""

    metadata: ListMeta
    items: list[T] | None = None


def decode(body: bytes, type_: type[T]) -> T:
    """One object; `msgspec.ValidationError` if it does not fit the type."""
    try:
        return _decoder(type_).decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise ConnectionFailed(f"the answer is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not fit the type: who it is, and what is wrong with it."""

    namespace: str
    name: str
    resource_version: str
    problem: str
    deleted: bool = False


def decode_page(
    body: bytes, type_: type[T], on_undecodable: Callable[[Undecodable], None] | None = None
) -> Page[T]:
    """One page of a list.

    Objects that do not fit the type are reported to `on_undecodable` and left out; without
    it they are an error.
    """
    try:
        return decode(body, Page[type_])
    except msgspec.ValidationError:
        if on_undecodable is None:
            raise
    try:
        raw = decode(body, Page[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise ConnectionFailed(f"the answer is not a list: {error}") from error
    items: list[T] = []
    for item in raw.items or ():
        try:
            items.append(_decoder(type_).decode(item))
        except msgspec.ValidationError as error:
            on_undecodable(undecodable(msgspec.json.decode(item), error))
    return Page(raw.metadata, items)


def undecodable(obj: JsonObject, error: Exception, deleted: bool = False) -> Undecodable:
    """What can still be said about an object that does not fit its type."""
    metadata: JsonObject = obj.get("metadata") or {}
    return Undecodable(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        problem=str(error),
        deleted=deleted,
    )


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def encode_object(resource: Resource[Any], obj: Any, name: str = "") -> bytes:
    """An object as the body of a create or an apply.

    apiVersion, kind and (for an apply) metadata.name are filled in where the object leaves
    them out, so that a projection need not carry them.
    """
    given: JsonObject = msgspec.to_builtins(obj)
    body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind}
    body.update((key, value) for key, value in given.items() if value not in (None, ""))
    if name:
        body["metadata"] = {**(body.get("metadata") or {}), "name": name}
    return msgspec.json.encode(body)
