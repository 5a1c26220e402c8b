"""Counts finished pods into a Job's status, once each. Pure.

`record_finished_pods` records the uids of finished pods and which finalizers may be removed; when
they are, `count_released` replaces uids by counts, and `finish_status` ends the Job once all are
counted.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.local.controllers.batch.job.finish import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    set_condition,
)
from kilonova.local.controllers.batch.job.index_set import IndexSet
from kilonova.local.controllers.batch.job.pods.counts import JobPodCounts, index_of
from kilonova.local.controllers.batch.job.pods.failures import has_failed, match_failure_policy
from kilonova.local.controllers.batch.objects import Condition, JobStatus, UncountedPods
from kilonova.local.objects.core import Pod

MAX_UNCOUNTED = 500
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class TrackedStatus:
    """The status to write before finalizers are removed, and the pods they are then removed
    from."""

    status: JobStatus
    release: tuple[Pod, ...]
    tracked_uids: frozenset[str]
    """Uids of the pods that have the finalizer now."""
    finish: Condition | None
    """The final condition, once nothing is left to wait for."""


def record_finished_pods(
    counts: JobPodCounts, status: JobStatus, ending: Condition | None
) -> TrackedStatus:
    """Record the pods that have finished since; all that are left if the Job ends."""
    tracked = {pod.metadata.uid for pod in counts.pods if counts.is_tracked(pod)}
    status = count_released(status, tracked)
    uncounted = status.uncounted_terminated_pods or UncountedPods()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    indexes: list[int] = []
    release: list[Pod] = []
    for pod in _sort_by_index(counts):
        if not counts.is_tracked(pod) or not _can_be_released(counts, pod, ending):
            continue
        release.append(pod)
        uid, index = pod.metadata.uid, index_of(pod, counts.job)
        if pod.status.phase == "Succeeded" and uid not in uncounted.failed:
            if counts.job.is_indexed:
                indexes += [] if index is None else [index]
            elif uid not in uncounted.succeeded:
                succeeded.append(uid)
        elif _is_counted_as_failed(counts, pod, ending) and uid not in uncounted.failed:
            failed.append(uid)
        if len(indexes) + len(succeeded) + len(failed) >= MAX_UNCOUNTED:
            ending_now = False
            break
    else:
        ending_now = True
    changed = replace(
        status, uncounted_terminated_pods=UncountedPods(tuple(succeeded), tuple(failed))
    )
    changed = _update_indexes(counts, changed, indexes)
    return _build_tracked_status(changed, tuple(release), frozenset(tracked), ending, ending_now)


def count_released(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Replace uids of pods whose finalizer is gone by counts."""
    uncounted = status.uncounted_terminated_pods or UncountedPods()
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    failed = tuple(uid for uid in uncounted.failed if uid in tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(uncounted.succeeded) - len(succeeded),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedPods(succeeded, failed),
    )


def finish_status(
    status: JobStatus, finish: Condition | None, terminating: int
) -> JobStatus | None:
    """The status of a finished Job; None while pods are uncounted or terminating."""
    uncounted = status.uncounted_terminated_pods or UncountedPods()
    if finish is None or not uncounted.is_empty or terminating:
        return None
    ended = replace(status, conditions=set_condition(status.conditions, finish))
    if finish.type == "Complete":
        ended = replace(ended, completion_time=finish.last_transition_time)
    return ended


def _sort_by_index(counts: JobPodCounts) -> Sequence[Pod]:
    if not counts.job.is_indexed:
        return counts.pods
    return sorted(counts.pods, key=lambda pod: index_of(pod, counts.job) or 0)


def _can_be_released(counts: JobPodCounts, pod: Pod, ending: Condition | None) -> bool:
    job = counts.job
    if job.metadata.deletion_timestamp or ending is not None or pod.status.phase == "Succeeded":
        return True
    if not has_failed(pod, job):
        return False
    return not any(waiting is pod for _, waiting in counts.awaiting_replacement)


def _is_counted_as_failed(counts: JobPodCounts, pod: Pod, ending: Condition | None) -> bool:
    """A Job that fails counts every pod that had not ended as failed."""
    job = counts.job
    cut_off = ending is not None and ending.type != SUCCESS_CRITERIA_MET
    if not has_failed(pod, job) and not cut_off:
        return False
    if job.is_indexed and index_of(pod, job) is None:
        return False
    return match_failure_policy(job.spec.pod_failure_policy, pod).is_counted


def _update_indexes(counts: JobPodCounts, status: JobStatus, new: Sequence[int]) -> JobStatus:
    if not counts.job.is_indexed:
        return status
    before = IndexSet.parse(status.completed_indexes, counts.job.spec.completions or 0)
    done = before | IndexSet.from_numbers(new)
    failed = counts.failed_indexes
    return replace(
        status,
        succeeded=len(done),
        completed_indexes=str(done),
        failed_indexes=None if failed is None else str(failed),
    )


def _build_tracked_status(
    status: JobStatus,
    release: tuple[Pod, ...],
    tracked: frozenset[str],
    ending: Condition | None,
    is_complete: bool,
) -> TrackedStatus:
    """The interim condition is set now, the final one when all pods are counted."""
    if ending is None:
        return TrackedStatus(status, release, tracked, None)
    final = {FAILURE_TARGET: "Failed", SUCCESS_CRITERIA_MET: "Complete"}.get(ending.type)
    finish = ending
    if final is not None:
        if status.condition(ending.type) is None:
            status = replace(status, conditions=(*status.conditions, ending))
        finish = replace(ending, type=final)
    return TrackedStatus(status, release, tracked, finish if is_complete else None)
