"""The lease as a state machine: what one candidate has observed, and what it may write next.

No I/O and no clock. Two times are passed in: `now`, seconds of a local monotonic clock, which
decides everything; and the wall clock, which is only written for readers. Times written by another
holder are never compared with ours: a lease has expired when we have not seen it change for its
holder's lease duration.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.times import format_micro_time
from kilonova.kube.election.lease_store import LeaseRecord, StoredLease


@dataclass(frozen=True, slots=True)
class LeaderElectionTiming:
    """Times in seconds; the defaults and the rules between them are client-go's."""

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


@dataclass(frozen=True, slots=True)
class LeaseWrite:
    """A write that wins the lease unless another was faster; `version` None creates it."""

    record: LeaseRecord
    version: str | None


class LeaseCandidate:
    """What one candidate knows about a lease."""

    def __init__(self, identity: str, timing: LeaderElectionTiming) -> None:
        self._identity = identity
        self._timing = timing
        self._version: str | None = None
        # The last observed record outlives the lease: a deleted one is respected until it expires.
        self._record = LeaseRecord()
        self._observed_at = 0.0

    @property
    def holder(self) -> str:
        """The last observed holder; empty if there was none."""
        return self._record.holder

    def observe(self, lease: StoredLease | None, now: float) -> None:
        """Record what is stored; None when there is no lease."""
        self._version = None if lease is None else lease.version
        if lease is not None and lease.record != self._record:
            self._record = lease.record
            self._observed_at = now

    def held_for(self, now: float) -> float:
        """Seconds until the lease of another holder expires; 0 if it may be acquired."""
        if self.holder in ("", self._identity):
            return 0.0
        return max(0.0, self._observed_at + self._record.duration_seconds - now)

    def plan_acquire(self, now: float, wall: datetime) -> LeaseWrite | None:
        """The write that starts a new term, None while another candidate holds the lease.

        The token grows even if we held the lease last: a term that ended stays ended.
        """
        if self.held_for(now) > 0:
            return None
        return self._plan_write(self._record.token + 1, format_micro_time(wall), wall)

    def plan_renewal(self, wall: datetime) -> LeaseWrite | None:
        """The write that prolongs our term, None if another candidate holds the lease now.

        A deleted lease is created again, with its previous token.
        """
        if self.holder != self._identity:
            return None
        return self._plan_write(self._record.token, self._record.acquired, wall)

    def plan_release(self, wall: datetime) -> LeaseWrite | None:
        """The write that lets others acquire the lease at once, None if it is not held."""
        if self.holder != self._identity or self._version is None:
            return None
        write = self._plan_write(self._record.token, format_micro_time(wall), wall)
        return replace(write, record=replace(write.record, holder="", duration_seconds=1))

    def _plan_write(self, token: int, acquired: str, wall: datetime) -> LeaseWrite:
        duration = int(self._timing.lease_duration)
        renewed = format_micro_time(wall)
        record = LeaseRecord(self._identity, duration, acquired, renewed, max(token, 0))
        return LeaseWrite(record, self._version)
