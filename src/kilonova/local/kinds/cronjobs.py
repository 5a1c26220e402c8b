"""CronJobs."""

import re
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import age
from kilonova.local import cron
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    count,
    selector_column,
    template_columns,
    text,
)
from kilonova.local.kinds.jobs import fill_job_spec, job_spec_problems
from kilonova.local.kinds.rules import not_negative, one_of
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part
from kilonova.local.names import dns_subdomain

_zone_part = re.compile(r"(?!-)[A-Za-z.\-_0-9+]{1,14}").fullmatch
_NAME_LIMIT = 52
"""A job's name adds eleven characters to its CronJob's, and has to stay a DNS label."""


def _last_schedule(obj: JsonObject, now: datetime) -> str:
    last = at(obj, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


def _suspend(obj: JsonObject) -> str:
    value = at(obj, "spec", "suspend")
    return UNSET if value is None else str(bool(value))


@strategy("batch", "CronJob")
class CronJobs(Strategy):
    """Jobs by the clock."""

    has_generation = True
    columns = (
        NAME,
        text("Schedule", "spec", "schedule"),
        text("Timezone", "spec", "timeZone", missing=NONE),
        Column("Suspend", "boolean", lambda obj, _: _suspend(obj)),
        count("Active", "status", "active"),
        Column("Last Schedule", "string", _last_schedule),
        AGE,
        *template_columns("spec", "jobTemplate", "spec", "template"),
        selector_column("spec", "jobTemplate", "spec", "selector"),
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        fill_job_spec(inside(inside(spec, "jobTemplate"), "spec"))

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        schedule = spec.get("schedule")
        if not schedule:
            problems.append(required("spec.schedule"))
        else:
            problems += _schedule_problems(schedule)
        if (zone := spec.get("timeZone")) is not None:
            problems += _zone_problems(zone)
        policies = ["Allow", "Forbid", "Replace"]
        problems += one_of(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", policies)
        limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds"]
        problems += not_negative(spec, "spec", limits)
        job = part(spec, "jobTemplate", "spec")
        return problems + job_spec_problems(job, "spec.jobTemplate.spec")

    def valid_name(self, name: str) -> str | None:
        if len(name) > _NAME_LIMIT:
            return f"must be no more than {_NAME_LIMIT} characters"
        return dns_subdomain(name)


def _schedule_problems(schedule: str) -> list[Problem]:
    problems: list[Problem] = []
    in_zone = schedule.startswith(("TZ=", "CRON_TZ="))
    try:
        cron.parse(schedule.partition(" ")[2].strip() if in_zone else schedule)
    except cron.ScheduleError as error:
        problems.append(invalid_value("spec.schedule", schedule, str(error)))
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(invalid_value("spec.schedule", schedule, detail))
    return problems


def _zone_problems(zone: str) -> list[Problem]:
    if not zone:
        return [invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if any(each in (".", "..") or not _zone_part(each) for each in parts):
        return [invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        return [invalid_value("spec.timeZone", zone, detail)]
    problem = cron.zone_problem(zone)
    return [invalid_value("spec.timeZone", zone, problem)] if problem else []
