"""The Lease as a state machine: what one candidate has seen, and what it may write next.

No I/O and no clock. Two times come in: `now`, seconds of a local clock that only goes
forward, by which everything is decided; and the wall clock, which is only written for people
to read. The times that another holder wrote are never compared with ours: a Lease expires
when it has not changed before our eyes for as long as its holder promised to renew it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.resource import Resource


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; the defaults and the rules between them are those of client-go."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    jitter: float = 1.2

    def __post_init__(self) -> None:
        if self.lease_duration != int(self.lease_duration) or self.lease_duration < 1:
            raise ValueError("lease_duration must be whole seconds, at least 1")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease_duration must be greater than renew_deadline")
        if self.retry_period <= 0 or self.renew_deadline <= self.retry_period * self.jitter:
            raise ValueError("renew_deadline must be greater than retry_period × jitter")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds a Lease, since when, and for how long after each renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """The part of a coordination.k8s.io/v1 Lease that an election uses."""

    metadata: LeaseMeta = msgspec.field(default_factory=LeaseMeta)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)


@dataclass(frozen=True, slots=True)
class LeaseWrite:
    """A write that wins the Lease if nobody was faster; `version` None means to create it."""

    spec: JsonObject
    version: str | None

    @property
    def token(self) -> int:
        return int(self.spec["leaseTransitions"])


class Candidate:
    """What one candidate knows about a Lease."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self._identity = identity
        self._timing = timing
        self._lease: Lease | None = None
        # The last spec seen outlives the Lease: a deleted one is respected until it expires.
        self._spec = LeaseSpec()
        self._seen_at = 0.0

    @property
    def holder(self) -> str:
        """Who held the Lease when last seen; empty when nobody did."""
        return self._spec.holder_identity or ""

    def observe(self, lease: Lease | None, now: float) -> None:
        """Take note of what the server has; None when there is no such Lease."""
        self._lease = lease
        if lease is not None and lease.spec != self._spec:
            self._spec = lease.spec
            self._seen_at = now

    def takes(self, now: float, wall: datetime) -> LeaseWrite | None:
        """The write that starts a new leadership, None while another holds the Lease.

        The token grows also when we held it last: a leadership that ended stays ended.
        """
        expires = self._seen_at + (self._spec.lease_duration_seconds or 0)
        if self.holder not in ("", self._identity) and now < expires:
            return None
        transitions = self._spec.lease_transitions
        token = 0 if transitions is None else transitions + 1
        return self._write(token, micro_time(wall), wall)

    def renews(self, wall: datetime) -> LeaseWrite | None:
        """The write that prolongs our leadership, None if another has it now.

        A Lease that somebody deleted is made again, with the token that it had.
        """
        if self.holder != self._identity:
            return None
        return self._write(self._spec.lease_transitions or 0, self._spec.acquire_time or "", wall)

    def releases(self, wall: datetime) -> LeaseWrite | None:
        """The write that lets others in at once, None if there is nothing to let go."""
        if self.holder != self._identity or self._lease is None:
            return None
        time = micro_time(wall)
        write = self._write(self._spec.lease_transitions or 0, time, wall)
        spec = write.spec | {"holderIdentity": "", "leaseDurationSeconds": 1}
        return LeaseWrite(spec, write.version)

    def _write(self, token: int, acquired: str, wall: datetime) -> LeaseWrite:
        spec: JsonObject = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease_duration),
            "acquireTime": acquired,
            "renewTime": micro_time(wall),
            "leaseTransitions": token,
        }
        return LeaseWrite(spec, self._lease.metadata.resource_version if self._lease else None)


def micro_time(wall: datetime) -> str:
    """A MicroTime: always six digits, or Go clients fail to read it."""
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
