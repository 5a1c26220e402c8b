"""Failed pods: the failure policy, and the back-off before replacements. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.local.controllers.batch.objects import (
    ExitCodes,
    FailurePolicy,
    FailureRule,
    Job,
)
from kilonova.local.objects.core import ContainerStatus, Pod

_INITIAL_BACKOFF = 10.0
_MAX_BACKOFF = 600.0
FAILURE_COUNT_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT_ANNOTATION = "batch.kubernetes.io/job-index-ignored-failure-count"
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FailureDecision:
    """The result of the pod failure policy for a pod."""

    action: str = ""
    job_failure: str = ""
    """Why the whole Job fails because of it, if it does."""

    @property
    def is_counted(self) -> bool:
        return self.action != "Ignore"


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod counts as failed: it failed, or it is deleted before it could end."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None
    return deleted and pod.status.phase != "Succeeded" and not job.replaces_only_failed


def match_failure_policy(policy: FailurePolicy | None, pod: Pod) -> FailureDecision:
    """The action of the first matching rule; without one, the failure is counted."""
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        found = _match_rule(rule, pod)
        if found:
            failure = f"{found} matching {rule.action} rule at index {number}"
            return FailureDecision(rule.action, failure if rule.action == "FailJob" else "")
    return FailureDecision()


def is_index_failed(pod: Pod, job: Job) -> bool:
    """Whether the failure exhausted the back-off limit of the pod's index."""
    if not has_failed(pod, job):
        return False
    decision = match_failure_policy(job.spec.pod_failure_policy, pod)
    if decision.action == "FailIndex":
        return True
    return decision.is_counted and count_previous_failures(pod, FAILURE_COUNT_ANNOTATION) >= (
        job.spec.backoff_limit_per_index or 0
    )


def count_previous_failures(pod: Pod, *annotations: str) -> int:
    """How many pods of its index had failed before a pod was created, from its annotations."""
    texts = [pod.metadata.annotations.get(name, "") for name in annotations]
    return sum(int(text) for text in texts if text.isdecimal() and int(text) <= _MAX_INT32)


def build_failure_annotations(job: Job, replaced: Pod | None) -> dict[str, str]:
    """The annotations of a pod with the failure count of its index."""
    counted = ignored = 0
    if replaced is not None:
        counted = count_previous_failures(replaced, FAILURE_COUNT_ANNOTATION)
        ignored = count_previous_failures(replaced, IGNORED_FAILURE_COUNT_ANNOTATION)
        if match_failure_policy(job.spec.pod_failure_policy, replaced).is_counted:
            counted += 1
        else:
            ignored += 1
    decision = {FAILURE_COUNT_ANNOTATION: str(counted)}
    return {**decision, IGNORED_FAILURE_COUNT_ANNOTATION: str(ignored)} if ignored else decision


@dataclass(frozen=True, slots=True)
class JobBackoff:
    """Failures since the last success."""

    failures: int = 0
    last: datetime | None = None

    def record_finished(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "JobBackoff":
        """The back-off including these finished pods."""
        times = sorted(get_finish_time(pod) for pod in failed)
        success = max((get_finish_time(pod) for pod in succeeded), default=None)
        if success is None:
            return JobBackoff(self.failures + len(times), times[-1]) if times else self
        later = [time for time in times if time > success]
        return JobBackoff(len(later), later[-1] if later else None)

    def remaining(self, now: datetime) -> float:
        """Seconds until the next pod may be created."""
        if not self.failures or self.last is None:
            return 0.0
        wait = min(_INITIAL_BACKOFF * 2 ** min(self.failures - 1, 10), _MAX_BACKOFF)
        return max(0.0, wait - (now - self.last).total_seconds())


def index_backoff_remaining(replaced: Pod | None, now: datetime) -> float:
    """Seconds until the next pod of an index may be created."""
    if replaced is None:
        return 0.0
    failures = (
        count_previous_failures(
            replaced, FAILURE_COUNT_ANNOTATION, IGNORED_FAILURE_COUNT_ANNOTATION
        )
        + 1
    )
    return JobBackoff(failures, get_finish_time(replaced)).remaining(now)


def get_finish_time(pod: Pod) -> datetime:
    """When a pod ended, from the most reliable time in its status."""
    ended = _containers_finish_time(pod)
    if ended is not None:
        return ended
    ready = pod.condition("Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        grace = timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
        return parse_time(metadata.deletion_timestamp) - grace
    return parse_time(metadata.creation_timestamp)


def _containers_finish_time(pod: Pod) -> datetime | None:
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    statuses = [
        *pod.status.container_statuses,
        *(each for each in pod.status.init_container_statuses if each.name in sidecars),
    ]
    times: list[datetime] = []
    for status in statuses:
        terminated = status.state.terminated
        if terminated is None or not terminated.finished_at:
            return None
        times.append(parse_time(terminated.finished_at))
    return max(times, default=None)


def _match_rule(rule: FailureRule, pod: Pod) -> str:
    """What matches the rule, as text; empty if nothing does."""
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        for status in statuses:
            code = _exit_code(status)
            if code and _matches_exit_code(rule.on_exit_codes, status.name, code):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return ""
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status):
                return f"Pod {where} has condition {condition.type}"
    return ""


def _exit_code(status: ContainerStatus) -> int:
    return status.state.terminated.exit_code if status.state.terminated is not None else 0


def _matches_exit_code(codes: ExitCodes, container: str, code: int) -> bool:
    if codes.container_name not in (None, container):
        return False
    return (code in codes.values) == (codes.operator == "In")
