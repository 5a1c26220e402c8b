"""CronJobs."""

from datetime import datetime

from kilonova.api.json import JsonObject
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
from kilonova.local.times import age

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
        elif "TZ" in schedule:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            problems.append(invalid_value("spec.schedule", schedule, detail))
        elif not schedule.startswith("@") and len(schedule.split()) != 5:
            found = len(schedule.split())
            detail = f"expected exactly 5 fields, found {found}: [{schedule}]"
            problems.append(invalid_value("spec.schedule", schedule, detail))
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
