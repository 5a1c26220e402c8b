"""Deletes finished Jobs after their ttlSecondsAfterFinished."""

from datetime import datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Result, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.objects import JOBS, Job


def compute_expiry(job: Job) -> datetime | None:
    """When to delete a Job; None if it runs, is being deleted, or has no TTL."""
    finish, seconds = job.finished_condition, job.spec.ttl_seconds_after_finished
    if finish is None or seconds is None or job.metadata.deletion_timestamp:
        return None
    return parse_time(finish.last_transition_time) + timedelta(seconds=seconds)


class TtlAfterFinishedController:
    """Deletes finished Jobs, with their pods, when their TTL has expired."""

    def __init__(self, client: Client, jobs: Reflector[Job], clock: Clock) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock

    def controller(self) -> Controller:
        return Controller("ttl-after-finished", self._reconcile, [Watch(self._jobs)])

    async def _reconcile(self, key: Key) -> Result | None:
        job = self._jobs.store.get(key)
        end = compute_expiry(job) if job is not None else None
        if job is None or end is None:
            return None
        left = (end - self._clock.now()).total_seconds()
        if left > 0:
            return Result(left)
        metadata = job.metadata
        try:
            await self._client.delete(
                JOBS,
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                propagation_policy="Foreground",
            )
        except (NotFound, Conflict):
            return None  # deleted, or changed: its event will follow
        return None
