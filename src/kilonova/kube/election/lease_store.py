"""Where a lease is kept: the interface between an election and its storage.

A store holds one lease. Its two writes are conditional and linearizable: of several candidates
that create it, or that replace the same version, exactly one succeeds. Nothing else is required
of a storage: an API object with a resourceVersion has it, and so has an object store with
conditional writes. Leases are never deleted by an election; one that is released has no holder.
"""

from dataclasses import dataclass
from typing import Protocol

from kilonova.kube.client.errors import KubeError


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a lease.

    Times are text, as the holder wrote it, for people to read: candidates never compare them with
    their own clocks, but notice that the record changed.
    """

    holder: str = ""
    """The identity of the leader; empty after a release."""
    duration_seconds: int = 0
    """How long the lease is respected after it last changed."""
    acquired: str = ""
    renewed: str = ""
    token: int = -1
    """The fencing token: grows by one with each term; -1 before the first."""


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A record and its version, which changes with every write: a resourceVersion, an ETag."""

    record: LeaseRecord
    version: str


class LeaseConflict(KubeError):
    """Another candidate wrote the lease first."""


class LeaseUnavailable(KubeError):
    """The storage cannot be reached, or rejects the request; whether a write had an effect is not
    known."""


class LeaseStore(Protocol):
    """Storage of one lease. Every method raises `LeaseUnavailable` if the storage fails."""

    @property
    def name(self) -> str:
        """What is stored where, for logs: `kube-system/kilonova-scheduler`."""
        ...

    async def read(self) -> StoredLease | None:
        """The latest state; None if there is no lease."""
        ...

    async def create(self, record: LeaseRecord) -> StoredLease:
        """Write the first record; `LeaseConflict` if there is a lease."""
        ...

    async def replace(self, record: LeaseRecord, version: str) -> StoredLease:
        """Replace this version; `LeaseConflict` if the lease has another one, or is gone."""
        ...
