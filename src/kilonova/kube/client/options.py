"""Options of the verbs: patch types, selectors, delete options, scale."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.resource import Resource
from kilonova.kube.client.transport import Query

T = TypeVar("T")

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]
"""What happens to the dependents of a deleted object."""

JsonPatch = list[JsonObject]
"""Operations in order, as in RFC 6902."""


class PatchType(StrEnum):
    """The patch format. Strategic merge is for built-in kinds only."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a list, and the resourceVersion to watch from."""

    items: list[T]
    resource_version: str


class ScaleSpec(msgspec.Struct):
    """The desired number of replicas."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct):
    """The observed number of replicas."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct):
    """Desired and observed replicas, and the selector of their pods."""

    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


def object_path(
    resource: Resource[Any], namespace: str | None, name: str | None = None, subresource: str = ""
) -> str:
    """The path of an object or a collection; `ValueError` for an invalid name."""
    if name is not None:
        if not name or name in (".", "..") or "/" in name or "%" in name:
            raise ValueError(f"{name!r} cannot be the name of an object")
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.kind} {name!r} needs a namespace")
    return resource.path(namespace, name, subresource)


def selector_query(label_selector: str, field_selector: str) -> Query:
    """The query of label and field selectors; empty selectors select everything."""
    query: Query = []
    if label_selector:
        query.append(("labelSelector", label_selector))
    if field_selector:
        query.append(("fieldSelector", field_selector))
    return query


def delete_options(
    grace_period_seconds: int | None,
    propagation_policy: str | None,
    uid: str | None,
    resource_version: str | None,
    dry_run: bool,
) -> JsonObject:
    """DeleteOptions, the body of a delete request."""
    return drop_none(
        apiVersion="v1",
        kind="DeleteOptions",
        gracePeriodSeconds=grace_period_seconds,
        propagationPolicy=propagation_policy,
        preconditions=drop_none(uid=uid, resourceVersion=resource_version) or None,
        dryRun=["All"] if dry_run else None,
    )


def drop_none(**fields: Any) -> JsonObject:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
