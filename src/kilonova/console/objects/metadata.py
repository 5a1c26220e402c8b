"""Metadata and quantities, shared by all objects."""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.meta import OwnerReference, intern_value

Quantities = dict[str, str | int | float]
"""Quantities by resource name, as in the object."""


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of all objects."""

    name: str
    resource_version: str = ""
    creation_timestamp: str = ""


class NamespacedMeta(ObjectMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of namespaced objects."""

    namespace: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "owner_references", intern_value(self.owner_references))

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        return next((each for each in self.owner_references if each.controller), None)
