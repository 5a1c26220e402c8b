"""The words that the verbs of the API use: kinds of patch, selectors, options of a deletion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.resource import Resource
from kilonova.kube.transport import Query

T = TypeVar("T")

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What becomes of the dependents of a deleted object."""

JsonPatch = list[JsonObject]
"""Operations in order, as RFC 6902 has them."""


class PatchKind(StrEnum):
    """How a patch is to be read. Strategic merge is for built-in kinds only."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a list, and the version to watch from."""

    items: list[T]
    resource_version: str


class ScaleSpec(msgspec.Struct):
    """What is wanted."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct):
    """What there is."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct):
    """How many replicas are wanted, how many there are, and the selector that finds them."""

    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


def path_of(
    resource: Resource[Any], namespace: str | None, name: str | None = None, sub: str = ""
) -> str:
    """Where an object or a collection lives; `ValueError` for what cannot be a name."""
    if name is not None:
        if not name or name in (".", "..") or "/" in name or "%" in name:
            raise ValueError(f"{name!r} cannot be the name of an object")
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.kind} {name!r} needs a namespace")
    return resource.path(namespace, name, sub)


def selectors(labels: str, fields: str) -> Query:
    """The query of a selection; empty selectors select everything."""
    query: Query = []
    if labels:
        query.append(("labelSelector", labels))
    if fields:
        query.append(("fieldSelector", fields))
    return query


def delete_options(
    grace: int | None,
    propagation: str | None,
    uid: str | None,
    resource_version: str | None,
    dry_run: bool,
) -> JsonObject:
    """The body of a deletion."""
    return present(
        apiVersion="v1",
        kind="DeleteOptions",
        gracePeriodSeconds=grace,
        propagationPolicy=propagation,
        preconditions=present(uid=uid, resourceVersion=resource_version) or None,
        dryRun=["All"] if dry_run else None,
    )


def present(**fields: Any) -> JsonObject:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
