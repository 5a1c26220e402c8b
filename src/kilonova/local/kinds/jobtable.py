"""A job as a row of `kubectl get jobs`."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import age, human_duration, parse_time
from kilonova.local.kinds.walk import at, objects


def job_status(job: JsonObject) -> str:
    """One word for where the job stands."""
    met = {
        condition.get("type")
        for condition in objects(job, "status", "conditions")
        if condition.get("status") == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in met:
            return condition
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in met:
            return condition
    return "Running"


def job_completions(job: JsonObject) -> str:
    """`2/5`, or `0/1 of 3` where any success of several pods will do."""
    succeeded = at(job, "status", "succeeded") or 0
    completions = at(job, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = at(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: JsonObject, now: datetime) -> str:
    """From start to end, or until now."""
    start, end = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not start:
        return ""
    if not end:
        return age(start, now)
    return human_duration((parse_time(end) - parse_time(start)).total_seconds())
