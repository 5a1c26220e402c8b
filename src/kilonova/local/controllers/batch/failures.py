"""Pods that failed: what that means for the job, and how long to wait before the next. Pure."""

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
from kilonova.local.controllers.objects import ContainerStatus, Pod

_FIRST_WAIT = 10.0
_LONGEST_WAIT = 600.0
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a job's policy makes of a pod's failure."""

    action: str = ""
    job_failure: str = ""
    """Why the whole job fails for it, if it does."""

    @property
    def counted(self) -> bool:
        return self.action != "Ignore"


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod counts as failed: it ended so, or it goes before it could end."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None
    return deleted and pod.status.phase != "Succeeded" and not job.replaces_only_failed


def meaning(policy: FailurePolicy | None, pod: Pod) -> Meaning:
    """What the first rule that fits says; without one, a failure is just counted."""
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        found = _matched(rule, pod)
        if found:
            failure = f"{found} matching {rule.action} rule at index {number}"
            return Meaning(rule.action, failure if rule.action == "FailJob" else "")
    return Meaning()


def index_has_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod's failure was the last that its index may have."""
    if not has_failed(pod, job):
        return False
    told = meaning(job.spec.pod_failure_policy, pod)
    if told.action == "FailIndex":
        return True
    return told.counted and failure_count(pod, FAILURES) >= (job.spec.backoff_limit_per_index or 0)


def failure_count(pod: Pod, *annotations: str) -> int:
    """How many pods of its index had failed before a pod was made, as the pod itself says."""
    texts = [pod.metadata.annotations.get(name, "") for name in annotations]
    return sum(int(text) for text in texts if text.isdecimal() and int(text) <= _MOST)


def inherited_failures(job: Job, replaced: Pod | None) -> dict[str, str]:
    """What the pod of an index is told of those before it."""
    counted = ignored = 0
    if replaced is not None:
        counted = failure_count(replaced, FAILURES)
        ignored = failure_count(replaced, IGNORED_FAILURES)
        if meaning(job.spec.pod_failure_policy, replaced).counted:
            counted += 1
        else:
            ignored += 1
    told = {FAILURES: str(counted)}
    return {**told, IGNORED_FAILURES: str(ignored)} if ignored else told


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures since the last success."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "Backoff":
        """What it is once these pods have ended too."""
        times = sorted(finish_time(pod) for pod in failed)
        success = max((finish_time(pod) for pod in succeeded), default=None)
        if success is None:
            return Backoff(self.failures + len(times), times[-1]) if times else self
        later = [time for time in times if time > success]
        return Backoff(len(later), later[-1] if later else None)

    def remaining(self, now: datetime) -> float:
        """How many seconds to wait before the next pod."""
        if not self.failures or self.last is None:
            return 0.0
        wait = min(_FIRST_WAIT * 2 ** min(self.failures - 1, 10), _LONGEST_WAIT)
        return max(0.0, wait - (now - self.last).total_seconds())


def remaining_for_index(replaced: Pod | None, now: datetime) -> float:
    """How many seconds to wait before the next pod of an index."""
    if replaced is None:
        return 0.0
    failures = failure_count(replaced, FAILURES, IGNORED_FAILURES) + 1
    return Backoff(failures, finish_time(replaced)).remaining(now)


def finish_time(pod: Pod) -> datetime:
    """When a pod ended, from the best evidence there is."""
    ended = _containers_end(pod)
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


def _containers_end(pod: Pod) -> datetime | None:
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


def _matched(rule: FailureRule, pod: Pod) -> str:
    """What of the pod fits the rule, in words; empty where nothing does."""
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        for status in statuses:
            code = _exit_code(status)
            if code and _fits(rule.on_exit_codes, status.name, code):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return ""
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status):
                return f"Pod {where} has condition {condition.type}"
    return ""


def _exit_code(status: ContainerStatus) -> int:
    return status.state.terminated.exit_code if status.state.terminated is not None else 0


def _fits(codes: ExitCodes, container: str, code: int) -> bool:
    if codes.container_name not in (None, container):
        return False
    return (code in codes.values) == (codes.operator == "In")
