"""Whether a job is over, and what its conditions say. Pure."""

from datetime import datetime

from kilonova.api.times import later, parse_time, rfc3339
from kilonova.local.controllers.batch.failures import has_failed, meaning
from kilonova.local.controllers.batch.intervals import Indexes
from kilonova.local.controllers.batch.objects import Condition, Job, SuccessRule
from kilonova.local.controllers.batch.tally import Tally
from kilonova.local.kinds.walk import at

FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"


def condition(
    type_: str, reason: str, message: str, now: datetime, status: str = "True"
) -> Condition:
    """A condition as it stands from now on."""
    moment = rfc3339(now)
    return Condition(type_, status, moment, moment, reason, message)


def with_condition(conditions: tuple[Condition, ...], wanted: Condition) -> tuple[Condition, ...]:
    """The conditions with one of them so; a condition that never held is not said to be false."""
    for position, present in enumerate(conditions):
        if present.type == wanted.type:
            if _words(present) == _words(wanted):
                return conditions
            return (*conditions[:position], wanted, *conditions[position + 1 :])
    return conditions if wanted.status == "False" else (*conditions, wanted)


def _words(each: Condition) -> tuple[str, str, str]:
    return each.status, each.reason, each.message


def verdict(counted: Tally, now: datetime) -> Condition | None:
    """Why a job ends now though pods of it may run: what was decided before comes first.

    Reaching the number of completions is not among these: see `completion`.
    """
    status = counted.job.status
    decided = status.condition(SUCCESS_CRITERIA_MET)
    if decided is not None:
        return decided
    failing = status.condition(FAILURE_TARGET)
    if failing is not None:
        return condition("Failed", failing.reason, failing.message, now)
    found = _failure(counted, now) or _failure_of_indexes(counted)
    if found is not None:
        return condition(FAILURE_TARGET, *found, now)
    for number, rule in enumerate(_success_rules(counted)):
        if _holds(rule, counted):
            message = f"Matched rules at index {number}"
            return condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message, now)
    return None


def completion(counted: Tally, active: int, now: datetime) -> Condition | None:
    """The success of a job whose pods have all ended, enough of them well."""
    wanted = counted.job.spec.completions
    enough = counted.succeeded > 0 if wanted is None else counted.succeeded >= wanted
    if not enough or active:
        return None
    message = "Reached expected number of succeeded pods"
    return condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, now)


def deadline(job: Job) -> datetime | None:
    """When a running job has taken too long."""
    seconds, start = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or start is None or job.spec.suspend:
        return None
    return later(parse_time(start), seconds)


def _failure(counted: Tally, now: datetime) -> tuple[str, str] | None:
    job = counted.job
    if job.spec.pod_failure_policy is not None:
        for pod in counted.pods:
            told = meaning(job.spec.pod_failure_policy, pod) if has_failed(pod, job) else None
            if told is not None and told.job_failure:
                return "PodFailurePolicy", told.job_failure
    if counted.failed > job.spec.backoff_limit or _restarted_too_often(counted):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    limit = deadline(job)
    if limit is not None and now >= limit:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _failure_of_indexes(counted: Tally) -> tuple[str, str] | None:
    failed, spec = counted.failed_indexes, counted.job.spec
    if not failed:
        return None
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", message
    if len(failed) + len(counted.succeeded_indexes) >= (spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _restarted_too_often(counted: Tally) -> bool:
    """Containers that are started again in their pod count as failures too."""
    spec = counted.job.spec
    if at(spec.template, "spec", "restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in counted.pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(spec.backoff_limit, 1)


def _success_rules(counted: Tally) -> tuple[SuccessRule, ...]:
    policy = counted.job.spec.success_policy
    return policy.rules if policy is not None and counted.succeeded_indexes else ()


def _holds(rule: SuccessRule, counted: Tally) -> bool:
    done, count = counted.succeeded_indexes, rule.succeeded_count
    if rule.succeeded_indexes is None:
        return count is not None and len(done) >= count
    wanted = Indexes.parse(rule.succeeded_indexes, counted.job.spec.completions or 0)
    common = wanted.common(done)
    return bool(wanted) and (common == len(wanted) or (count is not None and common >= count))
