"""Writes of the controller that its cache does not show yet.

A cache lags behind the controller's own writes. A decision on a stale cache would create or delete
the same pods again, so the controller waits: the events of its writes enqueue the Job. The
expectations are in memory only: a cache that is filled after a restart shows all writes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kilonova.kube import Reflector
from kilonova.local.controllers.batch.objects import TRACKING_FINALIZER, Job
from kilonova.local.objects.core import Pod


@dataclass(slots=True)
class JobExpectations:
    """Writes to one Job and its pods."""

    job_version: int = 0
    """The resourceVersion of the Job as last written."""
    newest_pod_version: int = 0
    """The resourceVersion of the last created pod."""
    deleted: set[str] = field(default_factory=set[str])
    released: set[str] = field(default_factory=set[str])
    """Uids of pods whose finalizer was removed."""

    def record_creation(self, version: str) -> None:
        self.newest_pod_version = max(self.newest_pod_version, int(version))

    def observe(self, pods: Iterable[Pod]) -> None:
        """Drop the expectations that the cache fulfils."""
        deleted: set[str] = set()
        released: set[str] = set()
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.deleted and pod.metadata.deletion_timestamp is None:
                deleted.add(uid)
            if uid in self.released and TRACKING_FINALIZER in pod.metadata.finalizers:
                released.add(uid)
        self.deleted, self.released = deleted, released

    def is_satisfied(self, job: Job, pods: Reflector[Pod]) -> bool:
        """Whether the caches show the Job and its pods as they were written."""
        return (
            not self.deleted
            and int(job.metadata.resource_version) >= self.job_version
            and int(pods.resource_version or 0) >= self.newest_pod_version
        )
