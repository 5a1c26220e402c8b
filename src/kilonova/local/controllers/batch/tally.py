"""What a job's pods amount to. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kilonova.local.controllers.batch.failures import (
    FAILURES,
    IGNORED_FAILURES,
    failure_count,
    finish_time,
    has_failed,
    index_has_failed,
    meaning,
)
from kilonova.local.controllers.batch.intervals import NO_INDEXES, Indexes
from kilonova.local.controllers.batch.objects import INDEX, TRACKING, Job, Uncounted
from kilonova.local.controllers.objects import Pod


@dataclass(frozen=True, slots=True)
class Tally:
    """A job and its pods, counted. Pods in `released` have lost their finalizer, seen or not."""

    job: Job
    pods: Sequence[Pod]
    released: Collection[str]
    active: tuple[Pod, ...]
    terminating: int
    new_succeeded: tuple[Pod, ...]
    """Ended well, and not in the status in any form."""
    new_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    succeeded_indexes: Indexes = NO_INDEXES
    failed_indexes: Indexes | None = None
    awaiting: tuple[tuple[int, Pod], ...] = ()
    """The last failed pod of each index that waits for another: it hands its count on."""

    @property
    def ready(self) -> int:
        return sum(pod.ready for pod in self.active)

    def is_tracked(self, pod: Pod) -> bool:
        return TRACKING in pod.metadata.finalizers and pod.metadata.uid not in self.released


def tally(job: Job, pods: Sequence[Pod], released: Collection[str] = ()) -> Tally:
    """Count a job's pods."""
    uncounted = job.status.uncounted_terminated_pods or Uncounted()
    tracked = [
        pod
        for pod in pods
        if TRACKING in pod.metadata.finalizers and pod.metadata.uid not in released
    ]
    valid = [pod for pod in tracked if not job.indexed or index_of(pod, job) is not None]
    succeeded = tuple(
        pod
        for pod in valid
        if pod.status.phase == "Succeeded" and pod.metadata.uid not in uncounted.succeeded
    )
    failed = tuple(
        pod for pod in valid if has_failed(pod, job) and pod.metadata.uid not in uncounted.failed
    )
    policy = job.spec.pod_failure_policy
    counted = Tally(
        job,
        pods,
        released,
        tuple(pod for pod in pods if not pod.ended and pod.metadata.deletion_timestamp is None),
        sum(not pod.ended and pod.metadata.deletion_timestamp is not None for pod in pods),
        succeeded,
        failed,
        job.status.succeeded + len(succeeded) + len(uncounted.succeeded),
        job.status.failed
        + sum(meaning(policy, pod).counted for pod in failed)
        + len(uncounted.failed),
    )
    return _with_indexes(counted, tracked) if job.indexed else counted


def index_of(pod: Pod, job: Job) -> int | None:
    """The index that a pod works for; None where it has none that the job knows."""
    text = pod.metadata.annotations.get(INDEX, "")
    if not text.isdecimal() or int(text) >= (job.spec.completions or 0):
        return None
    return int(text)


def indexes_of(pods: Sequence[Pod], job: Job) -> Indexes:
    """The indexes that some pod works for."""
    found = (index_of(pod, job) for pod in pods)
    return Indexes.of(index for index in found if index is not None)


def _with_indexes(counted: Tally, tracked: Sequence[Pod]) -> Tally:
    job = counted.job
    below = job.spec.completions or 0
    done = Indexes.parse(job.status.completed_indexes, below)
    done |= indexes_of([pod for pod in tracked if pod.status.phase == "Succeeded"], job)
    failed: Indexes | None = None
    awaiting: tuple[tuple[int, Pod], ...] = ()
    if job.limited_per_index:
        failed = Indexes.parse(job.status.failed_indexes or "", below)
        failed |= indexes_of([pod for pod in tracked if index_has_failed(pod, job)], job)
        settled = done | failed | indexes_of(counted.active, job)
        awaiting = _awaiting(job, tracked, settled)
    return Tally(
        job,
        counted.pods,
        counted.released,
        counted.active,
        counted.terminating,
        counted.new_succeeded,
        counted.new_failed,
        len(done),
        counted.failed,
        done,
        failed,
        awaiting,
    )


def _awaiting(job: Job, tracked: Sequence[Pod], settled: Indexes) -> tuple[tuple[int, Pod], ...]:
    latest: dict[int, Pod] = {}
    for pod in tracked:
        index = index_of(pod, job)
        if index is None or index in settled or not has_failed(pod, job):
            continue
        before = latest.get(index)
        if before is None or _order(before) <= _order(pod):
            latest[index] = pod
    return tuple(latest.items())


def _order(pod: Pod) -> tuple[int, float]:
    return failure_count(pod, FAILURES, IGNORED_FAILURES), finish_time(pod).timestamp()
