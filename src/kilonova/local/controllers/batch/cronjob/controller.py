"""The CronJob controller: creates Jobs on schedule, and deletes old ones.

A Job's name is derived from its scheduled time, so that a repeated attempt finds the existing Job.
However many times were missed (by a restart or a clock jump), only the latest is started.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova.api import cron
from kilonova.api.times import format_rfc3339
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Client,
    Controller,
    KubeError,
    NotFound,
    Reflector,
    Result,
    Watch,
)
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.cronjob.plan import (
    build_job,
    decide_start,
    find_missing_jobs,
    remove_active_job,
    seconds_to_next_start,
    select_expired_jobs,
    update_active_jobs,
)
from kilonova.local.controllers.batch.objects import (
    CRON_JOBS,
    JOBS,
    CronJob,
    CronJobStatus,
    Job,
    JobReference,
)

_BY_CRON_JOB = "cron job"
_WORKERS = 5

replace = msgspec.structs.replace


class CronJobController:
    """Creates Jobs on schedule."""

    def __init__(
        self,
        client: Client,
        cron_jobs: Reflector[CronJob],
        jobs: Reflector[Job],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cron_jobs = cron_jobs
        self._jobs = jobs
        self._events = events
        self._clock = clock
        self._last_written: dict[str, int] = {}  # by uid: the resourceVersion of our last write
        self._schedules: dict[str, tuple[str, str | None]] = {}
        jobs.store.add_index(_BY_CRON_JOB, _uid_of_cron_job)

    def controller(self) -> Controller:
        watches = [Watch(self._cron_jobs), Watch(self._jobs, _map_job_to_cron_job)]
        return Controller("cron jobs", self._reconcile, watches, workers=_WORKERS)

    async def _reconcile(self, key: Key) -> Result | None:
        found = self._cron_jobs.store.get(key)
        if found is None:
            return None
        uid = found.metadata.uid
        if int(found.metadata.resource_version) < self._last_written.get(uid, 0):
            return None  # the event of that write will enqueue it
        after = self._delay_after_schedule_change(found)
        if after is not None:
            return Result(after)
        jobs = self._jobs.store.by_index(_BY_CRON_JOB, uid)
        for job in select_expired_jobs(found, jobs):
            await self._delete_job(found, job.metadata.name, job.metadata.uid)
        status = await self._update_active_jobs(found, jobs)
        current = CronJob(found.metadata, found.spec, status)
        desired = decide_start(current, self._clock.now())
        self._record_events(found, *desired.events)
        if desired.start is not None:
            status = await self._start_job(current, desired.start)
        await self._write_status(found, status)
        return None if desired.requeue_after is None else Result(desired.requeue_after)

    def _delay_after_schedule_change(self, cron_job: CronJob) -> float | None:
        """A changed schedule counts from now: the delay of the next check, when first observed."""
        uid, spec = cron_job.metadata.uid, cron_job.spec
        before = self._schedules.get(uid)
        self._schedules[uid] = (spec.schedule, spec.time_zone)
        if before in (None, self._schedules[uid]) or cron.time_zone_error(spec.time_zone or "UTC"):
            return None
        try:
            times = cron.parse_schedule(spec.schedule, spec.time_zone or "")
        except cron.ScheduleError:
            return None
        return seconds_to_next_start(cron_job, self._clock.now(), times)

    async def _update_active_jobs(self, cron_job: CronJob, jobs: list[Job]) -> CronJobStatus:
        status, new_events = update_active_jobs(cron_job, jobs)
        self._record_events(cron_job, *new_events)
        for reference in find_missing_jobs(status, jobs):
            try:
                await self._client.get(JOBS, reference.name, cron_job.metadata.namespace)
            except NotFound:
                text = f"Active job went missing: {reference.name}"
                self._record_events(cron_job, ("MissingJob", text, False))
                status = remove_active_job(status, reference.uid)
        return status

    async def _start_job(self, cron_job: CronJob, time: datetime) -> CronJobStatus:
        status = cron_job.status
        if cron_job.spec.concurrency_policy == "Replace":
            for running in status.active:
                await self._delete_job(cron_job, running.name, running.uid)
                status = remove_active_job(status, running.uid)
        job = await self._create_job(cron_job, time)
        if job is None or any(each.uid == job.metadata.uid for each in status.active):
            return status
        metadata = job.metadata
        reference = JobReference(
            metadata.name,
            metadata.namespace,
            metadata.uid,
            "Job",
            "batch/v1",
            metadata.resource_version,
        )
        return replace(
            status, active=(*status.active, reference), last_schedule_time=format_rfc3339(time)
        )

    async def _create_job(self, cron_job: CronJob, time: datetime) -> Job | None:
        """The Job of a scheduled time, new or existing; None if the name belongs to another
        object."""
        namespace, body = cron_job.metadata.namespace, build_job(cron_job, time)
        try:
            job = await self._client.create(JOBS, body, namespace)
        except AlreadyExists:
            job = await self._client.get(JOBS, body["metadata"]["name"], namespace)
            owner = job.metadata.controller
            return job if owner is not None and owner.uid == cron_job.metadata.uid else None
        except KubeError as error:
            text = error.message if isinstance(error, ApiStatusError) else str(error)
            self._record_events(cron_job, ("FailedCreate", f"Error creating job: {text}", True))
            raise
        self._record_events(
            cron_job, ("SuccessfulCreate", f"Created job {job.metadata.name}", False)
        )
        return job

    async def _delete_job(self, cron_job: CronJob, name: str, uid: str) -> None:
        namespace = cron_job.metadata.namespace
        try:
            await self._client.delete(
                JOBS, name, namespace, uid=uid, propagation_policy="Background"
            )
        except NotFound:
            return
        except KubeError as error:
            self._record_events(cron_job, ("FailedDelete", f"Deleted job: {error}", True))
            raise
        self._record_events(cron_job, ("SuccessfulDelete", f"Deleted job {name}", False))

    async def _write_status(self, cron_job: CronJob, status: CronJobStatus) -> None:
        if status == cron_job.status:
            return
        metadata = cron_job.metadata
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {
                "active": [msgspec.to_builtins(each) for each in status.active] or None,
                "lastScheduleTime": status.last_schedule_time,
                "lastSuccessfulTime": status.last_successful_time,
            },
        }
        written = await self._client.patch(
            CRON_JOBS, metadata.name, body, metadata.namespace, subresource="status"
        )
        self._last_written[metadata.uid] = int(written.metadata.resource_version)

    def _record_events(self, cron_job: CronJob, *notes: tuple[str, str, bool]) -> None:
        metadata = cron_job.metadata
        about = ObjectReference.to(CRON_JOBS, metadata.name, metadata.namespace, metadata.uid)
        for reason, message, warning in notes:
            self._events.event(about, reason, message, warning=warning)


def _uid_of_cron_job(job: Job) -> Iterable[str]:
    owner = job.metadata.controller
    return (owner.uid,) if owner is not None and owner.kind == "CronJob" else ()


def _map_job_to_cron_job(job: Job) -> Iterable[Key]:
    owner = job.metadata.controller
    if owner is None or owner.kind != "CronJob":
        return ()
    return ((job.metadata.namespace, owner.name),)
