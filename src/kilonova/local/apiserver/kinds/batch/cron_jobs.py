"""CronJobs."""

import re
from datetime import datetime

from kilonova.api import cron
from kilonova.api.json import JsonObject
from kilonova.api.times import human_age
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.names import dns_subdomain_error
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.batch.jobs import set_job_spec_defaults, validate_job_spec
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    count_column,
    selector_column,
    template_columns,
    text_column,
)
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum, validate_not_negative

_is_zone_part = re.compile(r"(?!-)[A-Za-z.\-_0-9+]{1,14}").fullmatch
_NAME_LIMIT = 52
"""The name of a Job has eleven characters more than its CronJob's, and must be a DNS label."""


def _last_schedule(obj: JsonObject, now: datetime) -> str:
    last = nested_value(obj, "status", "lastScheduleTime")
    return human_age(last, now) if last else NONE


def _suspend(obj: JsonObject) -> str:
    value = nested_value(obj, "spec", "suspend")
    return UNSET if value is None else str(bool(value))


@register_strategy("batch", "CronJob")
class CronJobStrategy(BuiltinStrategy):
    """Creates Jobs on a schedule."""

    has_generation = True
    columns = (
        NAME,
        text_column("Schedule", "spec", "schedule"),
        text_column("Timezone", "spec", "timeZone", missing=NONE),
        PrinterColumn("Suspend", "boolean", lambda obj, _: _suspend(obj)),
        count_column("Active", "status", "active"),
        PrinterColumn("Last Schedule", "string", _last_schedule),
        AGE,
        *template_columns("spec", "jobTemplate", "spec", "template"),
        selector_column("spec", "jobTemplate", "spec", "selector"),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        set_job_spec_defaults(ensure_object(ensure_object(spec, "jobTemplate"), "spec"))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        schedule = spec.get("schedule")
        if not schedule:
            problems.append(required_value("spec.schedule"))
        else:
            problems += _validate_schedule(schedule)
        if (zone := spec.get("timeZone")) is not None:
            problems += _validate_time_zone(zone)
        policies = ["Allow", "Forbid", "Replace"]
        problems += validate_enum(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", policies)
        limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds"]
        problems += validate_not_negative(spec, "spec", limits)
        job = nested_object(spec, "jobTemplate", "spec")
        return problems + validate_job_spec(job, "spec.jobTemplate.spec")

    def name_error(self, name: str) -> str | None:
        if len(name) > _NAME_LIMIT:
            return f"must be no more than {_NAME_LIMIT} characters"
        return dns_subdomain_error(name)


def _validate_schedule(schedule: str) -> list[FieldError]:
    problems: list[FieldError] = []
    in_zone = schedule.startswith(("TZ=", "CRON_TZ="))
    try:
        cron.parse_schedule(schedule.partition(" ")[2].strip() if in_zone else schedule)
    except cron.ScheduleError as error:
        problems.append(invalid_value("spec.schedule", schedule, str(error)))
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(invalid_value("spec.schedule", schedule, detail))
    return problems


def _validate_time_zone(zone: str) -> list[FieldError]:
    if not zone:
        return [invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if any(each in (".", "..") or not _is_zone_part(each) for each in parts):
        return [invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        return [invalid_value("spec.timeZone", zone, detail)]
    problem = cron.time_zone_error(zone)
    return [invalid_value("spec.timeZone", zone, problem)] if problem else []
