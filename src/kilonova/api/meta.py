"""Metadata, owner references and conditions of Kubernetes objects.

Projections: only the fields that are used. Decoded JSON has no reference cycles, so the structs are
excluded from garbage collection (`gc=False`): there may be very many. Values that are equal in many
objects are interned.
"""

from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")


@lru_cache(maxsize=1024)
def intern_value(value: T) -> T:
    """The equal value that was decoded before, if one is cached: saves memory."""
    return value


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner of an object; at most one owner is its controller."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of ObjectMeta that controllers use."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generate_name: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "owner_references", intern_value(self.owner_references))

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        return next((each for each in self.owner_references if each.controller), None)


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of any object's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None
    observed_generation: int | None = None
