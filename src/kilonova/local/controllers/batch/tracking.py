"""How ended pods get into a job's numbers, once each. Pure.

`track` writes down what is going to be counted and tells which finalizers may go; when they are
gone, `counted` makes numbers of it, and `concluded` ends the job if that was all.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.local.controllers.batch.failures import has_failed, meaning
from kilonova.local.controllers.batch.intervals import Indexes
from kilonova.local.controllers.batch.objects import Condition, JobStatus, Uncounted
from kilonova.local.controllers.batch.tally import Tally, index_of
from kilonova.local.controllers.batch.verdict import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    with_condition,
)
from kilonova.local.controllers.objects import Pod

MOST_UNCOUNTED = 500
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Tracked:
    """What to write before finalizers are removed, and from which pods they are then removed."""

    status: JobStatus
    release: tuple[Pod, ...]
    tracked: frozenset[str]
    """Uids of the pods that have the finalizer now."""
    finish: Condition | None
    """The final condition, once nothing is left to wait for."""


def track(tallied: Tally, status: JobStatus, ending: Condition | None) -> Tracked:
    """Take down the pods that have ended since; all that are left, where the job ends."""
    tracked = {pod.metadata.uid for pod in tallied.pods if tallied.is_tracked(pod)}
    status = counted(status, tracked)
    uncounted = status.uncounted_terminated_pods or Uncounted()
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    indexes: list[int] = []
    release: list[Pod] = []
    for pod in _in_order(tallied):
        if not tallied.is_tracked(pod) or not _may_be_released(tallied, pod, ending):
            continue
        release.append(pod)
        uid, index = pod.metadata.uid, index_of(pod, tallied.job)
        if pod.status.phase == "Succeeded" and uid not in uncounted.failed:
            if tallied.job.indexed:
                indexes += [] if index is None else [index]
            elif uid not in uncounted.succeeded:
                succeeded.append(uid)
        elif _counts_as_failed(tallied, pod, ending) and uid not in uncounted.failed:
            failed.append(uid)
        if len(indexes) + len(succeeded) + len(failed) >= MOST_UNCOUNTED:
            ending_now = False
            break
    else:
        ending_now = True
    changed = replace(status, uncounted_terminated_pods=Uncounted(tuple(succeeded), tuple(failed)))
    changed = _with_indexes(tallied, changed, indexes)
    return _ended(changed, tuple(release), frozenset(tracked), ending, ending_now)


def counted(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Make numbers of the uids whose pods have no finalizer any more."""
    uncounted = status.uncounted_terminated_pods or Uncounted()
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    failed = tuple(uid for uid in uncounted.failed if uid in tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(uncounted.succeeded) - len(succeeded),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=Uncounted(succeeded, failed),
    )


def concluded(status: JobStatus, finish: Condition | None, terminating: int) -> JobStatus | None:
    """The status of a job that is over; None while pods are uncounted, or on their way out."""
    uncounted = status.uncounted_terminated_pods or Uncounted()
    if finish is None or not uncounted.empty or terminating:
        return None
    ended = replace(status, conditions=with_condition(status.conditions, finish))
    if finish.type == "Complete":
        ended = replace(ended, completion_time=finish.last_transition_time)
    return ended


def _in_order(tallied: Tally) -> Sequence[Pod]:
    if not tallied.job.indexed:
        return tallied.pods
    return sorted(tallied.pods, key=lambda pod: index_of(pod, tallied.job) or 0)


def _may_be_released(tallied: Tally, pod: Pod, ending: Condition | None) -> bool:
    job = tallied.job
    if job.metadata.deletion_timestamp or ending is not None or pod.status.phase == "Succeeded":
        return True
    if not has_failed(pod, job):
        return False
    return not any(waiting is pod for _, waiting in tallied.awaiting)


def _counts_as_failed(tallied: Tally, pod: Pod, ending: Condition | None) -> bool:
    """A job that ends in failure counts every pod that had not ended as failed."""
    job = tallied.job
    cut_off = ending is not None and ending.type != SUCCESS_CRITERIA_MET
    if not has_failed(pod, job) and not cut_off:
        return False
    if job.indexed and index_of(pod, job) is None:
        return False
    return meaning(job.spec.pod_failure_policy, pod).counted


def _with_indexes(tallied: Tally, status: JobStatus, new: Sequence[int]) -> JobStatus:
    if not tallied.job.indexed:
        return status
    before = Indexes.parse(status.completed_indexes, tallied.job.spec.completions or 0)
    done = before | Indexes.of(new)
    failed = tallied.failed_indexes
    return replace(
        status,
        succeeded=len(done),
        completed_indexes=str(done),
        failed_indexes=None if failed is None else str(failed),
    )


def _ended(
    status: JobStatus,
    release: tuple[Pod, ...],
    tracked: frozenset[str],
    ending: Condition | None,
    all_taken: bool,
) -> Tracked:
    """The condition on the way goes in now, the final one when all pods are counted."""
    if ending is None:
        return Tracked(status, release, tracked, None)
    final = {FAILURE_TARGET: "Failed", SUCCESS_CRITERIA_MET: "Complete"}.get(ending.type)
    finish = ending
    if final is not None:
        if status.condition(ending.type) is None:
            status = replace(status, conditions=(*status.conditions, ending))
        finish = replace(ending, type=final)
    return Tracked(status, release, tracked, finish if all_taken else None)
