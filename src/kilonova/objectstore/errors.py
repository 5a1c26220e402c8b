"""Errors of object stores: which object of which store, the problem, and how to fix it."""

from dataclasses import dataclass


@dataclass(eq=False)
class ObjectStoreError(Exception):
    """Any failure of an object store.

    `where` names the store, and the key if the error is about one: `s3://bucket/key`.
    """

    where: str
    problem: str
    fix: str = ""

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


class NotFound(ObjectStoreError):
    """There is no such object, or no such bucket or folder."""


class PreconditionFailed(ObjectStoreError):
    """The object was created, replaced or deleted by another writer."""


class ChecksumMismatch(ObjectStoreError):
    """The content is damaged: in the store, or on its way."""


class AccessDenied(ObjectStoreError):
    """The store rejects the credentials, or they lack a permission."""


class Unavailable(ObjectStoreError):
    """The store did not answer, or failed. A write may have had its effect."""


class InvalidKey(ObjectStoreError):
    """A key that cannot name an object."""


class ObjectTooLarge(ObjectStoreError):
    """An object is larger than the caller's limit."""


class StoreNotUsable(ObjectStoreError):
    """The settings of a store are invalid, or a package that it needs is not installed."""
