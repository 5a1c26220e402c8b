"""When a CronJob creates a Job, and which of its Jobs to delete. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from kilonova.api import cron
from kilonova.api.json import JsonObject
from kilonova.api.times import add_seconds, parse_time
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.batch.objects import CronJob, CronJobStatus, Job, JobReference

_REQUEUE_PADDING = 0.1
_TOO_MANY_MISSED = 100
SCHEDULED_ANNOTATION = "batch.kubernetes.io/cronjob-scheduled-timestamp"

PlannedEvent = tuple[str, str, bool]
"""Reason and message of an event, and whether it is a warning."""
Times = cron.CronSchedule | cron.FixedInterval


@dataclass(frozen=True, slots=True)
class MissedStart:
    """The latest missed start time since `since`."""

    since: datetime
    time: datetime | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True)
class CronJobDecision:
    """What to do now, and when to check again."""

    start: datetime | None = None
    requeue_after: float | None = None
    events: tuple[PlannedEvent, ...] = ()


def find_most_recent_start(
    job: CronJob, now: datetime, times: Times, *, within_deadline: bool
) -> MissedStart:
    """The latest start time that is due and was missed; `ScheduleError` if there is no next one."""
    since = parse_time(job.status.last_schedule_time or job.metadata.creation_timestamp)
    limit = job.spec.starting_deadline_seconds
    if within_deadline and limit is not None:
        since = max(since, add_seconds(now, -limit))
    first = times.next(since)
    second = times.next(first) if first is not None else None
    if first is not None and now < first:
        return MissedStart(since)
    if first is not None and second is not None and now < second:
        return MissedStart(since, first)
    if first is None or second is None or (second - first).total_seconds() < 1:
        raise cron.ScheduleError("time difference between two schedules is less than 1 second")
    # Approach now by arithmetic, then step by step: a clock jump must not cost much.
    gap = round((second - first).total_seconds())
    missed = int((now - first).total_seconds()) // gap + 1
    found: datetime | None = None
    step = times.next(first + timedelta(seconds=(missed - 2) * gap))
    while step is not None and step <= now:
        found, step = step, times.next(step)
    return MissedStart(since, found, missed)


def seconds_to_next_start(job: CronJob, now: datetime, times: Times) -> float | None:
    """Seconds until the next start time."""
    try:
        recent = find_most_recent_start(job, now, times, within_deadline=False)
    except cron.ScheduleError:
        after = now
    else:
        after = recent.time or (recent.since if not recent.missed else now)
    following = times.next(after)
    return None if following is None else (following - now).total_seconds() + _REQUEUE_PADDING


def decide_start(job: CronJob, now: datetime) -> CronJobDecision:
    """Whether a Job is started now, for which scheduled time, and which events to record."""
    spec = job.spec
    problem = cron.time_zone_error(spec.time_zone) if spec.time_zone is not None else ""
    if problem:
        text = f'invalid timeZone: "{spec.time_zone}": {problem}'
        return CronJobDecision(events=(("UnknownTimeZone", text, True),))
    if spec.suspend or job.metadata.deletion_timestamp:
        return CronJobDecision()
    try:
        times = cron.parse_schedule(spec.schedule, spec.time_zone or "")
    except cron.ScheduleError as error:
        text = f'unparseable schedule: "{spec.schedule}" : {error}'
        return CronJobDecision(events=(("UnparseableSchedule", text, True),))
    try:
        recent = find_most_recent_start(job, now, times, within_deadline=True)
    except cron.ScheduleError as error:
        text = f"invalid schedule: {spec.schedule} : {error}"
        return CronJobDecision(events=(("InvalidSchedule", text, True),))
    after = seconds_to_next_start(job, now, times)
    if recent.time is None:
        return CronJobDecision(requeue_after=after)
    return _decide_at(job, recent.time, recent.missed, now, after)


def _decide_at(
    job: CronJob, time: datetime, missed: int, now: datetime, after: float | None
) -> CronJobDecision:
    spec, status = job.spec, job.status
    events: tuple[PlannedEvent, ...] = ()
    if missed > _TOO_MANY_MISSED:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
        events = (("TooManyMissedTimes", f"{text}check clock skew", True),)
    limit = spec.starting_deadline_seconds
    if limit is not None and add_seconds(time, limit) < now:
        moment = time.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        text = f"Missed scheduled time to start a job: {moment}"
        return CronJobDecision(requeue_after=after, events=(*events, ("MissSchedule", text, True)))
    last = status.last_schedule_time
    started = any(each.name == job_name(job, time) for each in status.active)
    if started or (last is not None and parse_time(last) == time):
        return CronJobDecision(requeue_after=after, events=events)
    if spec.concurrency_policy == "Forbid" and status.active:
        text = "Not starting job because prior execution is running and concurrency policy is "
        return CronJobDecision(
            requeue_after=after, events=(*events, ("JobAlreadyActive", f"{text}Forbid", False))
        )
    return CronJobDecision(time, after, events)


def select_expired_jobs(job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Finished Jobs beyond the history limits, the oldest first."""
    deleted: list[Job] = []
    for ending, limit in (
        ("Complete", job.spec.successful_jobs_history_limit),
        ("Failed", job.spec.failed_jobs_history_limit),
    ):
        ended = [
            each
            for each in jobs
            if each.finished_condition is not None and each.finished_condition.type == ending
        ]
        if limit is not None and len(ended) > limit:
            deleted += sorted(ended, key=_start_order)[: len(ended) - limit]
    return deleted


def _start_order(job: Job) -> tuple[bool, str, str]:
    start = job.status.start_time
    return start is None, start or "", job.metadata.name


def update_active_jobs(
    job: CronJob, jobs: Sequence[Job]
) -> tuple[CronJobStatus, list[PlannedEvent]]:
    """The status updated from the existing Jobs."""
    status, events = job.status, list[PlannedEvent]()
    listed = {each.uid for each in status.active}
    for each in jobs:
        uid, finish = each.metadata.uid, each.finished_condition
        if finish is None:
            if uid not in listed:
                text = (
                    f"Saw a job that the controller did not create or forgot: {each.metadata.name}"
                )
                events.append(("UnexpectedJob", text, True))
            continue
        if uid in listed:
            status = remove_active_job(status, uid)
            text = f"Saw completed job: {each.metadata.name}, condition: {finish.type}"
            events.append(("SawCompletedJob", text, False))
        ended = each.status.completion_time
        if finish.type == "Complete" and ended and ended > (status.last_successful_time or ""):
            status = msgspec.structs.replace(status, last_successful_time=ended)
    return status, events


def remove_active_job(status: CronJobStatus, uid: str) -> CronJobStatus:
    """The status without a Job that is no longer active."""
    remaining = tuple(each for each in status.active if each.uid != uid)
    return msgspec.structs.replace(status, active=remaining)


def find_missing_jobs(status: CronJobStatus, jobs: Sequence[Job]) -> list[JobReference]:
    """Active Jobs of the status that do not exist."""
    present = {each.metadata.uid for each in jobs}
    return [each for each in status.active if each.uid not in present]


def job_name(job: CronJob, time: datetime) -> str:
    """The name of the Job of a scheduled time: deterministic, so that it is created once."""
    return f"{job.metadata.name}-{int(time.timestamp()) // 60}"


def build_job(job: CronJob, time: datetime) -> JsonObject:
    """The Job of a scheduled time."""
    template = job.spec.job_template
    zone = cron.load_time_zone(job.spec.time_zone) if job.spec.time_zone else UTC
    moment = time.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = template.metadata
    return {
        "metadata": {
            "name": job_name(job, time),
            "labels": dict(nested_object(metadata, "labels")),
            "annotations": {**nested_object(metadata, "annotations"), SCHEDULED_ANNOTATION: moment},
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
        "spec": deep_copy(template.spec),
    }
