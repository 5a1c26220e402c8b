"""What a controller wrote and its cache does not show yet.

A cache lags behind the controller's own writes. Deciding on what it shows then would create or
delete the same pods again, so that the controller waits: the events of its writes wake it.
Nothing of it outlives the process, and nothing need: a cache that is filled anew shows it all.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kilonova.kube import Reflector
from kilonova.local.controllers.batch.objects import TRACKING, Job
from kilonova.local.controllers.objects import Pod


@dataclass(slots=True)
class Unseen:
    """Writes to one job and its pods."""

    job: int = 0
    """The version of the job as last written."""
    newest: int = 0
    """The version of the last pod created."""
    deleted: set[str] = field(default_factory=set[str])
    released: set[str] = field(default_factory=set[str])
    """Uids of pods that have lost their finalizer."""

    def created(self, version: str) -> None:
        self.newest = max(self.newest, int(version))

    def look(self, pods: Iterable[Pod]) -> None:
        """Forget what the cache has come to show."""
        deleted: set[str] = set()
        released: set[str] = set()
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.deleted and pod.metadata.deletion_timestamp is None:
                deleted.add(uid)
            if uid in self.released and TRACKING in pod.metadata.finalizers:
                released.add(uid)
        self.deleted, self.released = deleted, released

    def is_seen(self, job: Job, pods: Reflector[Pod]) -> bool:
        """Whether the caches show the job and its pods as they were written, after a look."""
        return (
            not self.deleted
            and int(job.metadata.resource_version) >= self.job
            and int(pods.resource_version or 0) >= self.newest
        )
