"""When a CronJob starts a job, and which of its jobs are to go. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import later, parse_time
from kilonova.local import cron
from kilonova.local.controllers.batch.objects import CronJob, CronJobStatus, Job, JobReference
from kilonova.local.kinds.walk import part
from kilonova.local.patch import copied

_PADDING = 0.1
_MANY = 100
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"

Note = tuple[str, str, bool]
"""Reason and message of an event, and whether it warns."""
Times = cron.Schedule | cron.Every


@dataclass(frozen=True, slots=True)
class Recent:
    """The last time that should have seen a start, among those since `since`."""

    since: datetime
    time: datetime | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now, and when to look again."""

    start: datetime | None = None
    after: float | None = None
    notes: tuple[Note, ...] = ()


def most_recent(job: CronJob, now: datetime, times: Times, *, within_deadline: bool) -> Recent:
    """The last start that is due and was not made; `ScheduleError` where there is no next."""
    since = parse_time(job.status.last_schedule_time or job.metadata.creation_timestamp)
    limit = job.spec.starting_deadline_seconds
    if within_deadline and limit is not None:
        since = max(since, later(now, -limit))
    first = times.next(since)
    second = times.next(first) if first is not None else None
    if first is not None and now < first:
        return Recent(since)
    if first is not None and second is not None and now < second:
        return Recent(since, first)
    if first is None or second is None or (second - first).total_seconds() < 1:
        raise cron.ScheduleError("time difference between two schedules is less than 1 second")
    # Near enough to now by arithmetic, then step by step: a clock that jumped must not cost.
    gap = round((second - first).total_seconds())
    missed = int((now - first).total_seconds()) // gap + 1
    found: datetime | None = None
    step = times.next(first + timedelta(seconds=(missed - 2) * gap))
    while step is not None and step <= now:
        found, step = step, times.next(step)
    return Recent(since, found, missed)


def seconds_to_next(job: CronJob, now: datetime, times: Times) -> float | None:
    """When to look again for a start."""
    try:
        recent = most_recent(job, now, times, within_deadline=False)
    except cron.ScheduleError:
        after = now
    else:
        after = recent.time or (recent.since if not recent.missed else now)
    following = times.next(after)
    return None if following is None else (following - now).total_seconds() + _PADDING


def due(job: CronJob, now: datetime) -> Due:
    """Whether a job starts now, for which time, and what there is to say about it."""
    spec = job.spec
    problem = cron.zone_problem(spec.time_zone) if spec.time_zone is not None else ""
    if problem:
        text = f'invalid timeZone: "{spec.time_zone}": {problem}'
        return Due(notes=(("UnknownTimeZone", text, True),))
    if spec.suspend or job.metadata.deletion_timestamp:
        return Due()
    try:
        times = cron.parse(spec.schedule, spec.time_zone or "")
    except cron.ScheduleError as error:
        text = f'unparseable schedule: "{spec.schedule}" : {error}'
        return Due(notes=(("UnparseableSchedule", text, True),))
    try:
        recent = most_recent(job, now, times, within_deadline=True)
    except cron.ScheduleError as error:
        text = f"invalid schedule: {spec.schedule} : {error}"
        return Due(notes=(("InvalidSchedule", text, True),))
    after = seconds_to_next(job, now, times)
    if recent.time is None:
        return Due(after=after)
    return _judged(job, recent.time, recent.missed, now, after)


def _judged(job: CronJob, time: datetime, missed: int, now: datetime, after: float | None) -> Due:
    spec, status = job.spec, job.status
    notes: tuple[Note, ...] = ()
    if missed > _MANY:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
        notes = (("TooManyMissedTimes", f"{text}check clock skew", True),)
    limit = spec.starting_deadline_seconds
    if limit is not None and later(time, limit) < now:
        moment = time.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        text = f"Missed scheduled time to start a job: {moment}"
        return Due(after=after, notes=(*notes, ("MissSchedule", text, True)))
    last = status.last_schedule_time
    started = any(each.name == job_name(job, time) for each in status.active)
    if started or (last is not None and parse_time(last) == time):
        return Due(after=after, notes=notes)
    if spec.concurrency_policy == "Forbid" and status.active:
        text = "Not starting job because prior execution is running and concurrency policy is "
        return Due(after=after, notes=(*notes, ("JobAlreadyActive", f"{text}Forbid", False)))
    return Due(time, after, notes)


def surplus(job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Jobs that ended and are beyond what is kept, the oldest first."""
    gone: list[Job] = []
    for ending, limit in (
        ("Complete", job.spec.successful_jobs_history_limit),
        ("Failed", job.spec.failed_jobs_history_limit),
    ):
        ended = [each for each in jobs if each.finish is not None and each.finish.type == ending]
        if limit is not None and len(ended) > limit:
            gone += sorted(ended, key=_age)[: len(ended) - limit]
    return gone


def _age(job: Job) -> tuple[bool, str, str]:
    start = job.status.start_time
    return start is None, start or "", job.metadata.name


def reviewed(job: CronJob, jobs: Sequence[Job]) -> tuple[CronJobStatus, list[Note]]:
    """The status after a look at the jobs that there are."""
    status, notes = job.status, list[Note]()
    listed = {each.uid for each in status.active}
    for each in jobs:
        uid, finish = each.metadata.uid, each.finish
        if finish is None:
            if uid not in listed:
                text = (
                    f"Saw a job that the controller did not create or forgot: {each.metadata.name}"
                )
                notes.append(("UnexpectedJob", text, True))
            continue
        if uid in listed:
            status = without(status, uid)
            text = f"Saw completed job: {each.metadata.name}, condition: {finish.type}"
            notes.append(("SawCompletedJob", text, False))
        ended = each.status.completion_time
        if finish.type == "Complete" and ended and ended > (status.last_successful_time or ""):
            status = msgspec.structs.replace(status, last_successful_time=ended)
    return status, notes


def without(status: CronJobStatus, uid: str) -> CronJobStatus:
    """The status without a job that runs no more."""
    kept = tuple(each for each in status.active if each.uid != uid)
    return msgspec.structs.replace(status, active=kept)


def missing(status: CronJobStatus, jobs: Sequence[Job]) -> list[JobReference]:
    """Jobs that are said to run and are not to be seen."""
    present = {each.metadata.uid for each in jobs}
    return [each for each in status.active if each.uid not in present]


def job_name(job: CronJob, time: datetime) -> str:
    """The name of the job for a time: the same for everyone who tries to start it."""
    return f"{job.metadata.name}-{int(time.timestamp()) // 60}"


def new_job(job: CronJob, time: datetime) -> JsonObject:
    """The job that starts at a time."""
    template = job.spec.job_template
    zone = cron.zone_named(job.spec.time_zone) if job.spec.time_zone else UTC
    moment = time.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = template.metadata
    return {
        "metadata": {
            "name": job_name(job, time),
            "labels": dict(part(metadata, "labels")),
            "annotations": {**part(metadata, "annotations"), SCHEDULED: moment},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": job.metadata.name,
                    "uid": job.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": copied(template.spec),
    }
