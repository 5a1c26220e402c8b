"""What every object of a Kubernetes API has: metadata, owners, conditions.

Projections: the fields that are used, and no others. What is read from JSON holds no cycles, and
is no concern of the collector (`gc=False`): there may be very many. Parts that are equal in many
objects are kept once.
"""

from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")


@lru_cache(maxsize=1024)
def shared(part: T) -> T:
    """The equal part that was read before, if one was lately: much less to hold, no more to do."""
    return part


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whose an object is; at most one owner is its controller."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What controllers use of any object's metadata."""

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
        force_setattr(self, "owner_references", shared(self.owner_references))

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
