"""The Job controller: runs pods to completion, replaces failed ones, counts each once.

One reconcile adjusts the number of pods, records finished pods in the status, removes their
finalizers, and replaces uids by counts. Each write has the resourceVersion that the decision is
based on; an interrupted reconcile is simply repeated.
"""

from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client, Controller, KubeError, Reflector, Result, Watch
from kilonova.kube.events import EventRecorder
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.wait.backoff import Backoff as RetryBackoff
from kilonova.local.clock import Clock
from kilonova.local.controllers.batch.job.expectations import JobExpectations
from kilonova.local.controllers.batch.job.finish import (
    build_condition,
    compute_deadline,
    decide_completion,
    decide_finish,
    set_condition,
)
from kilonova.local.controllers.batch.job.pods.claims import TRACKED_PODS_INDEX, JobPodClaimer
from kilonova.local.controllers.batch.job.pods.control import JobPodControl, object_reference
from kilonova.local.controllers.batch.job.pods.counts import JobPodCounts, count_pods
from kilonova.local.controllers.batch.job.pods.failures import JobBackoff, has_failed
from kilonova.local.controllers.batch.job.pods.plan import plan_pod_changes
from kilonova.local.controllers.batch.job.pods.tracking import (
    count_released,
    finish_status,
    record_finished_pods,
)
from kilonova.local.controllers.batch.objects import JOBS, Condition, Job, JobStatus
from kilonova.local.controllers.shared.indexes import BY_CONTROLLER
from kilonova.local.objects.core import Pod

_WORKERS = 5
_SYNC_BATCH_PERIOD = 0.25
"""Changes of a Job's pods within so many seconds are processed together."""

replace = msgspec.structs.replace


class _JobState(msgspec.Struct):
    """In-memory state of a Job; all of it can be rebuilt from the API."""

    uid: str
    expectations: JobExpectations
    backoff: JobBackoff
    last_sync: float = float("-inf")


class JobController:
    """Runs Jobs."""

    def __init__(
        self,
        client: Client,
        jobs: Reflector[Job],
        pods: Reflector[Pod],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._events = events
        self._clock = clock
        self._claims = JobPodClaimer(client, pods)
        self._pod_control = JobPodControl(client, events)
        self._states: dict[Key, _JobState] = {}

    def controller(self) -> Controller:
        return Controller(
            "jobs",
            self._reconcile,
            [Watch(self._jobs), Watch(self._pods, map_pod_to_job)],
            workers=_WORKERS,
            backoff=RetryBackoff(1.0, 60.0),
        )

    async def _reconcile(self, key: Key) -> Result | None:
        job = self._jobs.store.get(key)
        if job is None or not job.is_managed_here or job.finished_condition is not None:
            self._states.pop(key, None)
            await self._release_untracked(key, job)
            return None
        state = self._get_state(key, job)
        delay = state.last_sync + _SYNC_BATCH_PERIOD - self._clock.monotonic()
        if delay > 0:
            return Result(delay)
        pods = await self._claims.claim_pods(job)
        if pods is None:
            return None
        state.expectations.observe(pods)
        if not state.expectations.is_satisfied(job, self._pods):
            return None  # the events of those writes will enqueue it
        state.last_sync = self._clock.monotonic()
        return await self._sync_job(job, pods, state)

    def _get_state(self, key: Key, job: Job) -> _JobState:
        state = self._states.get(key)
        if state is None or state.uid != job.metadata.uid:
            state = self._states[key] = _JobState(job.metadata.uid, JobExpectations(), JobBackoff())
            pods = self._pods.store.by_index(BY_CONTROLLER, job.metadata.uid)
            state.backoff = JobBackoff().record_finished(
                [pod for pod in pods if pod.status.phase == "Succeeded"],
                [pod for pod in pods if has_failed(pod, job)],
            )
        return state

    async def _release_untracked(self, key: Key, job: Job | None) -> None:
        """Remove the finalizer from pods that no running Job of this name tracks."""
        if job is not None and not job.is_managed_here:
            return
        await self._pod_control.remove_finalizers(
            self._pods.store.by_index(TRACKED_PODS_INDEX, key), JobExpectations()
        )

    async def _sync_job(self, job: Job, pods: list[Pod], state: _JobState) -> Result | None:
        now, before = self._clock.now(), job
        if job.status.start_time is None and not job.spec.suspend:
            job = Job(job.metadata, job.spec, replace(job.status, start_time=format_rfc3339(now)))
        found = count_pods(job, pods, state.expectations.released)
        backoff = state.backoff.record_finished(found.new_succeeded, found.new_failed)
        ending = decide_finish(found, now)
        if ending is not None:
            status, failure, wait = await self._delete_active_pods(found, state.expectations)
            ending = ending if failure is None else None
        else:
            status, failure, wait = await self._manage_pods(found, backoff, now, state.expectations)
            ending = decide_completion(found, status.active, now)
            if ending is None and not job.metadata.deletion_timestamp:
                status = self._update_suspended_condition(job, status, now)
        await self._track_finished_pods(before, found, status, ending, state, backoff)
        if failure is not None:
            raise failure
        limit = compute_deadline(job)
        waits = [wait] if wait else []
        if limit is not None and ending is None:
            waits.append((limit - now).total_seconds())
        return Result(min(waits)) if waits else None

    async def _delete_active_pods(
        self, counts: JobPodCounts, expectations: JobExpectations
    ) -> tuple[JobStatus, KubeError | None, float]:
        """Delete the active pods of a finished Job."""
        status = counts.job.status
        failure: KubeError | None = None
        terminating = len(counts.active)
        try:
            await self._pod_control.delete(counts.job, counts.active, expectations)
        except KubeError as error:
            failure, terminating = error, 0
        return (
            _update_counts(status, counts, counts.active[terminating:], terminating),
            failure,
            0.0,
        )

    async def _manage_pods(
        self,
        counts: JobPodCounts,
        backoff: JobBackoff,
        now: datetime,
        expectations: JobExpectations,
    ) -> tuple[JobStatus, KubeError | None, float]:
        """Create or delete pods to reach the desired parallelism."""
        job = counts.job
        if job.metadata.deletion_timestamp:
            return _update_counts(job.status, counts, counts.active, 0), None, 0.0
        desired = plan_pod_changes(counts, backoff, now)
        failure: KubeError | None = None
        if desired.delete:
            await self._pod_control.remove_finalizers(desired.delete, expectations)
            await self._pod_control.delete(job, desired.delete, expectations)
        created, failure = await self._pod_control.create(job, desired.create, expectations)
        deleted = {pod.metadata.uid for pod in desired.delete}
        left = tuple(pod for pod in counts.active if pod.metadata.uid not in deleted)
        status = _update_counts(job.status, counts, left, len(deleted))
        return replace(status, active=status.active + created), failure, desired.requeue_after

    def _update_suspended_condition(self, job: Job, status: JobStatus, now: datetime) -> JobStatus:
        """Set the Suspended condition."""
        if job.spec.suspend:
            desired = build_condition("Suspended", "JobSuspended", "Job suspended", now)
        else:
            desired = build_condition("Suspended", "JobResumed", "Job resumed", now, "False")
        conditions = set_condition(status.conditions, desired)
        if conditions is status.conditions:
            return status
        reason = "Suspended" if job.spec.suspend else "Resumed"
        self._events.event(object_reference(job), reason, desired.message)
        start = None if job.spec.suspend else format_rfc3339(now)
        return replace(status, conditions=conditions, start_time=start)

    async def _track_finished_pods(
        self,
        before: Job,
        counts: JobPodCounts,
        status: JobStatus,
        ending: Condition | None,
        state: _JobState,
        backoff: JobBackoff,
    ) -> None:
        """Record finished pods, remove finalizers, and count them."""
        unseen = state.expectations
        tracked = record_finished_pods(counts, status, ending)
        version = await self._write_status(before, before.status, tracked.status, unseen)
        state.backoff = backoff
        await self._pod_control.remove_finalizers(tracked.release, unseen)
        left = tracked.tracked_uids - {pod.metadata.uid for pod in tracked.release}
        numbered = count_released(tracked.status, left)
        over = finish_status(numbered, tracked.finish, status.terminating or 0)
        current = Job(replace(before.metadata, resource_version=version), before.spec)
        await self._write_status(current, tracked.status, over or numbered, unseen)
        if over is not None and tracked.finish is not None:
            self._record_finish(counts.job, over, tracked.finish)

    async def _write_status(
        self, job: Job, old: JobStatus, new: JobStatus, expectations: JobExpectations
    ) -> str:
        """Write the changed fields of the status; returns the Job's new resourceVersion."""
        state = job.metadata
        changed = _build_status_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))
        if not changed:
            return state.resource_version
        body = {
            "metadata": {"uid": state.uid, "resourceVersion": state.resource_version},
            "status": changed,
        }
        written = await self._client.patch(
            JOBS, state.name, body, state.namespace, subresource="status"
        )
        expectations.job_version = int(written.metadata.resource_version)
        return written.metadata.resource_version

    def _record_finish(self, job: Job, status: JobStatus, finish: Condition) -> None:
        about, desired = object_reference(job), job.spec.completions
        if finish.type == "Failed":
            self._events.event(about, finish.reason, finish.message, warning=True)
            return
        if desired is not None and status.succeeded > desired:
            text = "Too many succeeded pods running after completion count reached"
            self._events.event(about, "TooManySucceededPods", text, warning=True)
        self._events.event(about, "Completed", "Job completed")


def map_pod_to_job(pod: Pod) -> list[Key]:
    """The Job that controls a pod, by name."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != "Job":
        return []
    return [(pod.metadata.namespace, owner.name)]


def _update_counts(
    status: JobStatus, counts: JobPodCounts, active: tuple[Pod, ...], terminating: int
) -> JobStatus:
    return replace(
        status,
        active=len(active),
        ready=sum(pod.is_ready for pod in active),
        terminating=counts.terminating + terminating,
    )


def _build_status_patch(old: JsonObject, new: JsonObject) -> JsonObject:
    """A merge patch from one status to another; removed fields become null."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    deleted: JsonObject = {name: None for name in old if name not in new}
    uncounted = changed.get("uncountedTerminatedPods")
    if uncounted is not None:
        # The patch is merged into the current value: lists that are empty now have to be removed.
        changed["uncountedTerminatedPods"] = {"succeeded": None, "failed": None} | uncounted
    return {**changed, **deleted}
