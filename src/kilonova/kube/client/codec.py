"""JSON to typed objects and back: one cached decoder per type, one pass per object.

Lists and watch lines are decoded straight to the resource's type; fields that the type lacks are
skipped by the parser at almost no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.client.resource import Resource

T = TypeVar("T")


class ListMeta(msgspec.Struct, rename="camel"):
    """ListMeta of metav1."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, Generic[T]):
    """One page of a list; the Go server writes an absent slice as null."""

    metadata: ListMeta
    items: list[T] | None = None


def decode(body: bytes, type_: type[T]) -> T:
    """Decode one object; raises `msgspec.ValidationError` if it does not match the type."""
    try:
        return _cached_decoder(type_).decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise ConnectionFailed(f"the response is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not match the type: its name, and the error."""

    namespace: str
    name: str
    resource_version: str
    problem: str
    deleted: bool = False


def decode_page(
    body: bytes, type_: type[T], on_undecodable: Callable[[Undecodable], None] | None = None
) -> ListPage[T]:
    """Decode one page of a list.

    Objects that do not match the type are reported to `on_undecodable` and left out; without it
    they are an error.
    """
    try:
        return decode(body, ListPage[type_])
    except msgspec.ValidationError:
        if on_undecodable is None:
            raise
    try:
        raw = decode(body, ListPage[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise ConnectionFailed(f"the response is not a list: {error}") from error
    items: list[T] = []
    for item in raw.items or ():
        try:
            items.append(_cached_decoder(type_).decode(item))
        except msgspec.ValidationError as error:
            on_undecodable(describe_undecodable(msgspec.json.decode(item), error))
    return ListPage(raw.metadata, items)


def describe_undecodable(obj: JsonObject, error: Exception, deleted: bool = False) -> Undecodable:
    """The name and error of an object that does not match its type."""
    metadata: JsonObject = obj.get("metadata") or {}
    return Undecodable(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        problem=str(error),
        deleted=deleted,
    )


@cache
def _cached_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def encode_object(resource: Resource[Any], obj: Any, name: str = "") -> bytes:
    """Encode an object as the body of a create or an apply.

    apiVersion, kind and (for an apply) metadata.name are set where the object omits them, so that a
    projection need not have them.
    """
    # The encoder accepts all that `to_builtins` does: no deep copy of a dictionary.
    fields = cast(JsonObject, obj if isinstance(obj, dict) else msgspec.to_builtins(obj))
    body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind}
    body.update((key, value) for key, value in fields.items() if value not in (None, ""))
    if name:
        body["metadata"] = {**msgspec.to_builtins(body.get("metadata") or {}), "name": name}
    return msgspec.json.encode(body)
