"""Counts of a Job's pods. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kilonova.local.controllers.batch.job.index_set import NO_INDEXES, IndexSet
from kilonova.local.controllers.batch.job.pods.failures import (
    FAILURE_COUNT_ANNOTATION,
    IGNORED_FAILURE_COUNT_ANNOTATION,
    count_previous_failures,
    get_finish_time,
    has_failed,
    is_index_failed,
    match_failure_policy,
)
from kilonova.local.controllers.batch.objects import (
    COMPLETION_INDEX,
    TRACKING_FINALIZER,
    Job,
    UncountedPods,
)
from kilonova.local.objects.core import Pod


@dataclass(frozen=True, slots=True)
class JobPodCounts:
    """A Job and the counts of its pods. Pods in `released` have lost their finalizer, even if the
    cache does not show it yet.
    """

    job: Job
    pods: Sequence[Pod]
    released: Collection[str]
    active: tuple[Pod, ...]
    terminating: int
    new_succeeded: tuple[Pod, ...]
    """Succeeded, and neither counted nor listed in the status."""
    new_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    succeeded_indexes: IndexSet = NO_INDEXES
    failed_indexes: IndexSet | None = None
    awaiting_replacement: tuple[tuple[int, Pod], ...] = ()
    """The last failed pod of each index that awaits a replacement, which inherits its failure
    count.
    """

    @property
    def ready(self) -> int:
        return sum(pod.is_ready for pod in self.active)

    def is_tracked(self, pod: Pod) -> bool:
        return (
            TRACKING_FINALIZER in pod.metadata.finalizers and pod.metadata.uid not in self.released
        )


def count_pods(job: Job, pods: Sequence[Pod], released: Collection[str] = ()) -> JobPodCounts:
    """Count a Job's pods."""
    uncounted = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = [
        pod
        for pod in pods
        if TRACKING_FINALIZER in pod.metadata.finalizers and pod.metadata.uid not in released
    ]
    valid = [pod for pod in tracked if not job.is_indexed or index_of(pod, job) is not None]
    succeeded = tuple(
        pod
        for pod in valid
        if pod.status.phase == "Succeeded" and pod.metadata.uid not in uncounted.succeeded
    )
    failed = tuple(
        pod for pod in valid if has_failed(pod, job) and pod.metadata.uid not in uncounted.failed
    )
    policy = job.spec.pod_failure_policy
    counted = JobPodCounts(
        job,
        pods,
        released,
        tuple(
            pod for pod in pods if not pod.is_terminal and pod.metadata.deletion_timestamp is None
        ),
        sum(not pod.is_terminal and pod.metadata.deletion_timestamp is not None for pod in pods),
        succeeded,
        failed,
        job.status.succeeded + len(succeeded) + len(uncounted.succeeded),
        job.status.failed
        + sum(match_failure_policy(policy, pod).is_counted for pod in failed)
        + len(uncounted.failed),
    )
    return _count_indexes(counted, tracked) if job.is_indexed else counted


def index_of(pod: Pod, job: Job) -> int | None:
    """The completion index of a pod; None if it has none that is valid for the Job."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    if not text.isdecimal() or int(text) >= (job.spec.completions or 0):
        return None
    return int(text)


def indexes_of(pods: Sequence[Pod], job: Job) -> IndexSet:
    """The completion indexes of some pods."""
    found = (index_of(pod, job) for pod in pods)
    return IndexSet.from_numbers(index for index in found if index is not None)


def _count_indexes(counts: JobPodCounts, tracked: Sequence[Pod]) -> JobPodCounts:
    job = counts.job
    below = job.spec.completions or 0
    done = IndexSet.parse(job.status.completed_indexes, below)
    done |= indexes_of([pod for pod in tracked if pod.status.phase == "Succeeded"], job)
    failed: IndexSet | None = None
    awaiting: tuple[tuple[int, Pod], ...] = ()
    if job.has_backoff_limit_per_index:
        failed = IndexSet.parse(job.status.failed_indexes or "", below)
        failed |= indexes_of([pod for pod in tracked if is_index_failed(pod, job)], job)
        settled = done | failed | indexes_of(counts.active, job)
        awaiting = _find_awaiting_replacement(job, tracked, settled)
    return JobPodCounts(
        job,
        counts.pods,
        counts.released,
        counts.active,
        counts.terminating,
        counts.new_succeeded,
        counts.new_failed,
        len(done),
        counts.failed,
        done,
        failed,
        awaiting,
    )


def _find_awaiting_replacement(
    job: Job, tracked: Sequence[Pod], settled: IndexSet
) -> tuple[tuple[int, Pod], ...]:
    latest: dict[int, Pod] = {}
    for pod in tracked:
        index = index_of(pod, job)
        if index is None or index in settled or not has_failed(pod, job):
            continue
        before = latest.get(index)
        if before is None or _failure_order(before) <= _failure_order(pod):
            latest[index] = pod
    return tuple(latest.items())


def _failure_order(pod: Pod) -> tuple[int, float]:
    return count_previous_failures(
        pod, FAILURE_COUNT_ANNOTATION, IGNORED_FAILURE_COUNT_ANNOTATION
    ), get_finish_time(pod).timestamp()
