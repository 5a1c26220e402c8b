"""The CronJob controller: starts a job when its time has come, and clears old ones away.

A job's name comes from its time, so that whoever tries twice to start it finds it there. However
many times were missed (a stop, a clock that jumped), only the last of them is made up for.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova.api.times import rfc3339
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
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local import cron
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.cronplan import (
    due,
    missing,
    new_job,
    reviewed,
    seconds_to_next,
    surplus,
    without,
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
    """Starts jobs by the clock."""

    def __init__(
        self,
        client: Client,
        cron_jobs: Reflector[CronJob],
        jobs: Reflector[Job],
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cron_jobs = cron_jobs
        self._jobs = jobs
        self._events = events
        self._clock = clock
        self._written: dict[str, int] = {}  # by uid: the version that we wrote last
        self._schedules: dict[str, tuple[str, str | None]] = {}
        jobs.store.add_index(_BY_CRON_JOB, _uid_of_cron_job)

    def controller(self) -> Controller:
        watches = [Watch(self._cron_jobs), Watch(self._jobs, _cron_job_of)]
        return Controller("cron jobs", self._reconcile, watches, workers=_WORKERS)

    async def _reconcile(self, key: Key) -> Result | None:
        found = self._cron_jobs.store.get(key)
        if found is None:
            return None
        uid = found.metadata.uid
        if int(found.metadata.resource_version) < self._written.get(uid, 0):
            return None  # the event of that write comes
        after = self._after_change(found)
        if after is not None:
            return Result(after)
        jobs = self._jobs.store.find(_BY_CRON_JOB, uid)
        for job in surplus(found, jobs):
            await self._delete(found, job.metadata.name, job.metadata.uid)
        status = await self._reviewed(found, jobs)
        current = CronJob(found.metadata, found.spec, status)
        wanted = due(current, self._clock.now())
        self._tell(found, *wanted.notes)
        if wanted.start is not None:
            status = await self._start(current, wanted.start)
        await self._write(found, status)
        return None if wanted.after is None else Result(wanted.after)

    def _after_change(self, found: CronJob) -> float | None:
        """A new schedule counts from now: when to look, the first time that it is seen."""
        uid, spec = found.metadata.uid, found.spec
        before = self._schedules.get(uid)
        self._schedules[uid] = (spec.schedule, spec.time_zone)
        if before in (None, self._schedules[uid]) or cron.zone_problem(spec.time_zone or "UTC"):
            return None
        try:
            times = cron.parse(spec.schedule, spec.time_zone or "")
        except cron.ScheduleError:
            return None
        return seconds_to_next(found, self._clock.now(), times)

    async def _reviewed(self, found: CronJob, jobs: list[Job]) -> CronJobStatus:
        status, notes = reviewed(found, jobs)
        self._tell(found, *notes)
        for reference in missing(status, jobs):
            try:
                await self._client.get(JOBS, reference.name, found.metadata.namespace)
            except NotFound:
                text = f"Active job went missing: {reference.name}"
                self._tell(found, ("MissingJob", text, False))
                status = without(status, reference.uid)
        return status

    async def _start(self, found: CronJob, time: datetime) -> CronJobStatus:
        status = found.status
        if found.spec.concurrency_policy == "Replace":
            for running in status.active:
                await self._delete(found, running.name, running.uid)
                status = without(status, running.uid)
        job = await self._create(found, time)
        if job is None or any(each.uid == job.metadata.uid for each in status.active):
            return status
        known = job.metadata
        reference = JobReference(
            known.name, known.namespace, known.uid, "Job", "batch/v1", known.resource_version
        )
        return replace(status, active=(*status.active, reference), last_schedule_time=rfc3339(time))

    async def _create(self, found: CronJob, time: datetime) -> Job | None:
        """The job of a time, made now or before; None where the name is somebody else's."""
        namespace, body = found.metadata.namespace, new_job(found, time)
        try:
            job = await self._client.create(JOBS, body, namespace)
        except AlreadyExists:
            job = await self._client.get(JOBS, body["metadata"]["name"], namespace)
            owner = job.metadata.controller
            return job if owner is not None and owner.uid == found.metadata.uid else None
        except KubeError as error:
            text = error.message if isinstance(error, ApiStatusError) else str(error)
            self._tell(found, ("FailedCreate", f"Error creating job: {text}", True))
            raise
        self._tell(found, ("SuccessfulCreate", f"Created job {job.metadata.name}", False))
        return job

    async def _delete(self, found: CronJob, name: str, uid: str) -> None:
        namespace = found.metadata.namespace
        try:
            await self._client.delete(JOBS, name, namespace, uid=uid, propagation="Background")
        except NotFound:
            return
        except KubeError as error:
            self._tell(found, ("FailedDelete", f"Deleted job: {error}", True))
            raise
        self._tell(found, ("SuccessfulDelete", f"Deleted job {name}", False))

    async def _write(self, found: CronJob, status: CronJobStatus) -> None:
        if status == found.status:
            return
        known = found.metadata
        body = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": {
                "active": [msgspec.to_builtins(each) for each in status.active] or None,
                "lastScheduleTime": status.last_schedule_time,
                "lastSuccessfulTime": status.last_successful_time,
            },
        }
        written = await self._client.patch(
            CRON_JOBS, known.name, body, known.namespace, subresource="status"
        )
        self._written[known.uid] = int(written.metadata.resource_version)

    def _tell(self, found: CronJob, *notes: tuple[str, str, bool]) -> None:
        known = found.metadata
        about = Reference.to(CRON_JOBS, known.name, known.namespace, known.uid)
        for reason, message, warning in notes:
            self._events.event(about, reason, message, warning=warning)


def _uid_of_cron_job(job: Job) -> Iterable[str]:
    owner = job.metadata.controller
    return (owner.uid,) if owner is not None and owner.kind == "CronJob" else ()


def _cron_job_of(job: Job) -> Iterable[Key]:
    owner = job.metadata.controller
    if owner is None or owner.kind != "CronJob":
        return ()
    return ((job.metadata.namespace, owner.name),)
