"""Whether a Job is finished, and its conditions. Pure."""

from datetime import datetime

from kilonova.api.times import add_seconds, format_rfc3339, parse_time
from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.controllers.batch.job.index_set import IndexSet
from kilonova.local.controllers.batch.job.pods.counts import JobPodCounts
from kilonova.local.controllers.batch.job.pods.failures import has_failed, match_failure_policy
from kilonova.local.controllers.batch.objects import Condition, Job, SuccessRule

FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"


def build_condition(
    type_: str, reason: str, message: str, now: datetime, status: str = "True"
) -> Condition:
    """A condition that holds from now on."""
    moment = format_rfc3339(now)
    return Condition(type_, status, moment, moment, reason, message)


def set_condition(conditions: tuple[Condition, ...], desired: Condition) -> tuple[Condition, ...]:
    """The conditions with one updated; a condition that never held is not added as False."""
    for position, present in enumerate(conditions):
        if present.type == desired.type:
            if _condition_content(present) == _condition_content(desired):
                return conditions
            return (*conditions[:position], desired, *conditions[position + 1 :])
    return conditions if desired.status == "False" else (*conditions, desired)


def _condition_content(each: Condition) -> tuple[str, str, str]:
    return each.status, each.reason, each.message


def decide_finish(counts: JobPodCounts, now: datetime) -> Condition | None:
    """Why a Job ends now although pods may still run: an earlier decision comes first.

    Reaching the number of completions is not included: see `decide_completion`.
    """
    status = counts.job.status
    decided = status.condition(SUCCESS_CRITERIA_MET)
    if decided is not None:
        return decided
    failing = status.condition(FAILURE_TARGET)
    if failing is not None:
        return build_condition("Failed", failing.reason, failing.message, now)
    found = _find_failure(counts, now) or _find_index_failure(counts)
    if found is not None:
        return build_condition(FAILURE_TARGET, *found, now)
    for number, rule in enumerate(_success_rules(counts)):
        if _is_rule_met(rule, counts):
            message = f"Matched rules at index {number}"
            return build_condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message, now)
    return None


def decide_completion(counts: JobPodCounts, active: int, now: datetime) -> Condition | None:
    """The completion of a Job whose pods have all ended, enough of them successfully."""
    desired = counts.job.spec.completions
    enough = counts.succeeded > 0 if desired is None else counts.succeeded >= desired
    if not enough or active:
        return None
    message = "Reached expected number of succeeded pods"
    return build_condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, now)


def compute_deadline(job: Job) -> datetime | None:
    """When a running Job exceeds its activeDeadlineSeconds."""
    seconds, start = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or start is None or job.spec.suspend:
        return None
    return add_seconds(parse_time(start), seconds)


def _find_failure(counts: JobPodCounts, now: datetime) -> tuple[str, str] | None:
    job = counts.job
    if job.spec.pod_failure_policy is not None:
        for pod in counts.pods:
            decision = (
                match_failure_policy(job.spec.pod_failure_policy, pod)
                if has_failed(pod, job)
                else None
            )
            if decision is not None and decision.job_failure:
                return "PodFailurePolicy", decision.job_failure
    if counts.failed > job.spec.backoff_limit or _has_exceeded_restarts(counts):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    limit = compute_deadline(job)
    if limit is not None and now >= limit:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _find_index_failure(counts: JobPodCounts) -> tuple[str, str] | None:
    failed, spec = counts.failed_indexes, counts.job.spec
    if not failed:
        return None
    if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", message
    if len(failed) + len(counts.succeeded_indexes) >= (spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _has_exceeded_restarts(counts: JobPodCounts) -> bool:
    """Container restarts within a pod count as failures too."""
    spec = counts.job.spec
    if nested_value(spec.template, "spec", "restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in counts.pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(spec.backoff_limit, 1)


def _success_rules(counts: JobPodCounts) -> tuple[SuccessRule, ...]:
    policy = counts.job.spec.success_policy
    return policy.rules if policy is not None and counts.succeeded_indexes else ()


def _is_rule_met(rule: SuccessRule, counts: JobPodCounts) -> bool:
    done, count = counts.succeeded_indexes, rule.succeeded_count
    if rule.succeeded_indexes is None:
        return count is not None and len(done) >= count
    desired = IndexSet.parse(rule.succeeded_indexes, counts.job.spec.completions or 0)
    common = desired.count_common(done)
    return bool(desired) and (common == len(desired) or (count is not None and common >= count))
