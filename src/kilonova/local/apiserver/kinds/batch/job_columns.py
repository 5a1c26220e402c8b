"""Cells of `kubectl get jobs`."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import human_age, human_duration, parse_time
from kilonova.local.apimachinery.unstructured import nested_objects, nested_value


def job_status(job: JsonObject) -> str:
    """The STATUS of a Job."""
    true_conditions = {
        condition.get("type")
        for condition in nested_objects(job, "status", "conditions")
        if condition.get("status") == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in true_conditions:
            return condition
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true_conditions:
            return condition
    return "Running"


def job_completions(job: JsonObject) -> str:
    """`2/5`, or `0/1 of 3` if the Job needs one success of several pods."""
    succeeded = nested_value(job, "status", "succeeded") or 0
    completions = nested_value(job, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = nested_value(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: JsonObject, now: datetime) -> str:
    """The time from start to completion, or until now."""
    start, end = (
        nested_value(job, "status", "startTime"),
        nested_value(job, "status", "completionTime"),
    )
    if not start:
        return ""
    if not end:
        return human_age(start, now)
    return human_duration((parse_time(end) - parse_time(start)).total_seconds())
