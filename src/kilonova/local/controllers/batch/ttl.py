"""Jobs that ended and say how long they want to be seen after that: then they go."""

from datetime import datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Result, Watch
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.objects import JOBS, Job


def expiry(job: Job) -> datetime | None:
    """When a job is to go; None where it runs, is going already, or stays."""
    finish, seconds = job.finish, job.spec.ttl_seconds_after_finished
    if finish is None or seconds is None or job.metadata.deletion_timestamp:
        return None
    return parse_time(finish.last_transition_time) + timedelta(seconds=seconds)


class FinishedJobs:
    """Deletes jobs, with their pods, when their time after the end is over."""

    def __init__(self, client: Client, jobs: Reflector[Job], clock: Clock) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock

    def controller(self) -> Controller:
        return Controller("finished jobs", self._reconcile, [Watch(self._jobs)])

    async def _reconcile(self, key: Key) -> Result | None:
        job = self._jobs.store.get(key)
        end = expiry(job) if job is not None else None
        if job is None or end is None:
            return None
        left = (end - self._clock.now()).total_seconds()
        if left > 0:
            return Result(left)
        known = job.metadata
        try:
            await self._client.delete(
                JOBS,
                known.name,
                known.namespace,
                uid=known.uid,
                resource_version=known.resource_version,
                propagation="Foreground",
            )
        except (NotFound, Conflict):
            return None  # gone, or changed: its event tells
        return None
